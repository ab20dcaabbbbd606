/// The note of a run about its mechanism at the lengths of its data.

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "tests/examples/run/tiny_run.h"

using namespace linnet::examples::test;
using linnet::test::Ended;

namespace {

/// How often `part` occurs in `text`.
int64_t count_of(const std::string& part, const std::string& text) {
  int64_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

}  // namespace

TEST_CASE(
    "config.json and the program say once where a mechanism is softmax attention, and nothing where it is not") {
  const Workshop shop;
  const auto note_of = [&](const std::string& program, const Arguments& flags) {
    const std::string out = "run-" + std::to_string(names_in(shop / ".").size());
    const Arguments tiny = program == "train_mnist" ? shop.tiny_images(out) : shop.tiny(out);
    const Ended ended = done(program, tiny + flags);
    const std::string note = config_of(shop / out).value("note", "");
    CHECK(count_of(" here: ", ended.out) == (note.empty() ? 0 : 1));
    CHECK(count_of(" here: " + note + "\n", ended.out) == (note.empty() ? 0 : 1));
    return note;
  };
  CHECK(note_of("train_mnist", {"--attention", "bigbird"}) ==
        "softmax attention, since 16 tokens make fewer than 8 blocks of 16");
  CHECK(note_of("train_mnist", {"--attention", "bigbird", "--block", "1"}) == "");
  for (const std::string attention : {"longformer", "poolingformer"}) {
    CAPTURE(attention);
    CHECK(note_of("train_text", {"--attention", attention}) ==
          "the window of 256 covers all 16 tokens, as in softmax attention");
    CHECK(note_of("train_text", {"--attention", attention, "--window", "14"}) == "");
  }
  CHECK(note_of("train_text", {}) == "");
}

TEST_CASE("compare says once for each mechanism where it is softmax attention") {
  const Workshop shop;
  const Ended ended =
      done("compare", shop.tiny("all") + Arguments{"--attention", "softmax,longformer", "--seeds", "2"});
  CHECK(count_of("longformer here: the window of 256 covers all 16 tokens, as in softmax attention\n", ended.out) ==
        1);
  CHECK(count_of(" here: ", ended.out) == 1);
  for (const std::string seed : {"1337", "1338"}) {
    CHECK(config_of(shop / ("all/longformer-" + seed)).contains("note"));
    CHECK_FALSE(config_of(shop / ("all/softmax-" + seed)).contains("note"));
  }
}
