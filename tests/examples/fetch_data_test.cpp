/// examples/fetch_data.sh, with a fake curl in place of the network.

#include <doctest/doctest.h>

#include <linnet/linnet.h>

#include "tests/examples/plot/picture.h"
#include "tests/examples/run/tiny_run.h"
#include "tests/support/real_data.h"

using namespace linnet::examples::test;
using linnet::test::Ended;
using linnet::test::read_bytes;
using linnet::test::run_program;
using linnet::test::TemporaryFolder;
using linnet::test::write_bytes;

namespace {

/// Runs the script, with `bin` first in PATH.
Ended fetch(const TemporaryFolder& folder, const std::string& flags) {
  const std::string script = std::string(LINNET_SOURCE_DIR) + "/examples/fetch_data.sh";
  return run_program("/bin/sh", {"-c", "PATH=" + (folder / "bin").string() + ":$PATH " + script + " --to " +
                                           (folder / "data").string() + " " + flags});
}

/// A curl that logs its addresses, and runs `body` with the address in $address and the file to write in $file.
void set_curl(const TemporaryFolder& folder, const std::string& body) {
  std::filesystem::create_directories(folder / "bin");
  write_bytes(
      folder / "bin/curl",
      "#!/bin/bash\naddress=${!#}\nwhile [[ $1 != --output ]]; do shift; done\nfile=$2\necho \"$address\" >>" +
          (folder / "asked").string() + "\n" + body + "\n");
  std::filesystem::permissions(folder / "bin/curl", std::filesystem::perms::owner_all);
}

}  // namespace

TEST_CASE("fetch_data.sh: mirrors that fail or lie are passed over, and the last line says what to do") {
  const TemporaryFolder folder;
  set_curl(folder, "[[ $address != *jsdelivr* ]] && exit 22; echo 'something else' >\"$file\"");
  const Ended ended = fetch(folder, "tinyshakespeare");
  CHECK(ended.code == 1);
  CHECK(contains(ended.err, "could not be had from https://raw.githubusercontent.com/"));
  CHECK(contains(ended.err,
                 "jsdelivr.net/gh/karpathy/char-rnn@master/data/tinyshakespeare/input.txt gave a file with "
                 "the wrong SHA-256"));
  CHECK(contains(ended.err, "place the file at " + (folder / "data/tinyshakespeare/input.txt").string()));
  CHECK_FALSE(std::filesystem::exists(folder / "data"));  // programs would read an empty folder as data
}

TEST_CASE("fetch_data.sh: a folder that cannot be written to is named, and nothing is asked for") {
  const TemporaryFolder folder;
  set_curl(folder, "exit 22");
  write_bytes(folder / "data", "");
  const Ended ended = fetch(folder, "tinyshakespeare");
  CHECK(ended.code == 1);
  CHECK(contains(ended.err, "tinyshakespeare/input.txt: cannot write to " + (folder / "data").string() +
                                "; name another folder with --to\n"));
  CHECK_FALSE(std::filesystem::exists(folder / "asked"));
  CHECK(std::filesystem::is_regular_file(folder / "data"));
}

TEST_CASE("fetch_data.sh: --from copies, plain or compressed files, and what is there is not fetched again") {
  const auto mnist = linnet::test::real_data("mnist");
  if (!mnist) return;
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "plain/mnist");
  for (const auto& entry : std::filesystem::directory_iterator(*mnist)) {
    const std::string name = entry.path().filename().string();
    const std::string plain = (folder / "plain/mnist" / name.substr(0, name.find('.'))).string();
    run_program("/bin/sh", {"-c", "gzip -dcf <" + entry.path().string() + " >" + plain});
  }
  for (const auto& from : {mnist->parent_path(), folder / "plain"}) {
    CAPTURE(from);
    std::filesystem::remove_all(folder / "data");
    const Ended ended = fetch(folder, "--from " + from.string() + " mnist");
    CHECK(ended.err == "");
    CHECK(ended.code == 0);
    CHECK_NOTHROW(linnet::nn::Mnist(folder / "data/mnist"));
  }
  set_curl(folder, "exit 22");
  const Ended again = fetch(folder, "mnist");
  CHECK(again.code == 0);
  CHECK(contains(again.out, "train-images-idx3-ubyte.gz: already there"));
  CHECK_FALSE(std::filesystem::exists(folder / "asked"));
}

TEST_CASE("fetch_data.sh: its flags") {
  const TemporaryFolder folder;
  CHECK(fetch(folder, "--help").code == 0);
  CHECK(contains(fetch(folder, "--help").out, "Usage: fetch_data.sh [--from DIR]"));
  CHECK(fetch(folder, "--frm x").code == 2);
  CHECK(fetch(folder, "--timeout soon").code == 2);
  CHECK(contains(fetch(folder, "--from /nowhere").err, "--from /nowhere: no such folder"));
  for (const std::string flag : {"--from", "--to", "--timeout"}) {
    const Ended empty = fetch(folder, flag + " ''");
    CHECK(empty.code == 2);
    CHECK(contains(empty.err, flag + " needs a value; usage: "));
  }
}
