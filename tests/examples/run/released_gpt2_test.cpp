/// sample with a small GPT-2 that Hugging Face's transformers wrote (goldens/tokenizer_cases.py).

#include <algorithm>

#include <doctest/doctest.h>

#include <linnet/nn/text/byte_pairs.h>
#include <nlohmann/json.hpp>

#include "tests/examples/run/ended_checks.h"
#include "tests/support/child_program.h"
#include "tests/support/files.h"

using namespace linnet;
using namespace linnet::test;
using linnet::examples::test::check_done;
using linnet::examples::test::check_fails;
namespace fs = std::filesystem;

namespace {

const fs::path kFolder = fs::path(LINNET_TEST_DATA) / "goldens/tokenizer";

}  // namespace

TEST_CASE("sample: the likeliest hundred tokens of a GPT-2 are those of transformers") {
  const auto tokenizer = nn::BytePairTokenizer::load(kFolder);
  for (const auto& golden : nlohmann::json::parse(read_bytes(kFolder / "continuations.json"))) {
    const auto prompt = golden.at("prompt").get<std::string>();
    const auto ids = golden.at("ids").get<std::vector<int64_t>>();
    CHECK(ids.size() == 100);
    const Ended ended = run_program("sample", {kFolder, "--prompt", prompt, "--tokens", "100", "--temperature", "0"});
    check_done(ended);
    CHECK(ended.out == prompt + tokenizer.decode(ids) + "\n");
  }
}

TEST_CASE("sample: the end token in config.json ends the text, and is not written") {
  const TemporaryFolder folder;
  for (const auto& entry : fs::directory_iterator(kFolder)) fs::copy(entry, folder.path());
  const auto golden = nlohmann::json::parse(read_bytes(kFolder / "continuations.json")).at(0);
  const auto prompt = golden.at("prompt").get<std::string>();
  auto ids = golden.at("ids").get<std::vector<int64_t>>();
  const int64_t end = ids.at(50);
  nlohmann::json config = nlohmann::json::parse(read_bytes(folder / "config.json"));
  config["eos_token_id"] = end;
  write_bytes(folder / "config.json", config.dump());
  ids.erase(std::ranges::find(ids, end), ids.end());
  const Ended ended =
      run_program("sample", {folder.path(), "--prompt", prompt, "--tokens", "100", "--temperature", "0"});
  check_done(ended);
  CHECK(ended.out == prompt + nn::BytePairTokenizer::load(kFolder).decode(ids) + "\n");
}

TEST_CASE("sample: a GPT-2 without a prompt begins with a new line") {
  const Ended ended = run_program("sample", {kFolder, "--tokens", "5"});
  check_done(ended);
  CHECK(ended.out.starts_with("\n"));
}

TEST_CASE("sample: a folder of GPT-2 that lacks a file, or has another model's") {
  const TemporaryFolder folder;
  for (const auto& entry : fs::directory_iterator(kFolder)) fs::copy(entry, folder.path());
  const auto refused = [&](const std::string& part) {
    check_fails(run_program("sample", {folder.path(), "--tokens", "5"}), part);
  };
  for (const std::string name : {"vocab.json", "merges.txt", "model.safetensors"}) {
    const std::string content = read_bytes(folder / name);
    fs::remove(folder / name);
    refused(name + "': No such file or directory");
    write_bytes(folder / name, content);
  }
  std::string config = read_bytes(folder / "config.json");
  config.replace(config.find("\"vocab_size\": 400"), 17, "\"vocab_size\": 399");
  write_bytes(folder / "config.json", config);
  refused("vocab.json has 400 tokens, but \"vocab_size\" in config.json is 399; take both from one model");
}
