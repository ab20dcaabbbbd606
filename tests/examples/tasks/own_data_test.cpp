/// Programs on a user's own data: texts in any script and folder, images of any size and number of classes.

#include <doctest/doctest.h>

#include <algorithm>

#include <linnet/core/files/safetensors.h>
#include <linnet/nn/data/text.h>
#include <nlohmann/json.hpp>

#include "tests/examples/run/tiny_run.h"
#include "tests/nn/data/idx_file.h"

using namespace linnet;
using namespace linnet::examples::test;
using linnet::test::Ended;
using linnet::test::gzipped;
using linnet::test::idx_bytes;
using linnet::test::read_bytes;
using linnet::test::run_program;
using linnet::test::write_bytes;

namespace {

/// Some 2,000 characters of three scripts.
std::string many_scripts() {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "Über die größte Brücke\nη θάλασσα ήταν ήρεμη\n明月几时有把酒问青天\n";
  return text;
}

/// The number of code points of a text, which must be UTF-8.
size_t characters_in(const std::string& text) { return nn::Vocabulary(text).encode(text).size(); }

/// Two images of each of three classes, in files as EMNIST names them.
void write_images(const std::filesystem::path& folder, uint32_t height, uint32_t width) {
  std::filesystem::create_directories(folder);
  for (const std::string part : {"train", "test"}) {
    write_bytes(folder / ("emnist-three-" + part + "-images-idx3-ubyte.gz"),
                gzipped(idx_bytes({6, height, width}, std::string(6 * height * width, '\x20'))));
    write_bytes(folder / ("emnist-three-" + part + "-labels-idx1-ubyte.gz"),
                gzipped(idx_bytes({6}, std::string("\0\1\2\0\1\2", 6))));
  }
}

}  // namespace

TEST_CASE("own text: a file of any script, by its name; samples are whole characters") {
  const Workshop shop;
  write_bytes(shop / "my.txt", "\xEF\xBB\xBF" + many_scripts());
  const Arguments data{"--data", shop / "my.txt"};
  const Ended ended = done("train_text", shop.tiny("run") + data);
  CHECK(ended.err == "my.txt: dropped the byte order mark of 1 file\n");
  CHECK(ended.out.find("softmax on my.txt (") != std::string::npos);
  CHECK(config_of(shop / "run")["data"].get<std::string>().starts_with("my.txt ("));
  CHECK(characters_in(read_bytes(shop / "run/samples.txt")) == 502);

  const Ended sample = done("sample", {shop / "run", "--prompt", "θ明ü", "--tokens", "50"});
  CHECK(sample.out.starts_with("θ明ü"));
  CHECK(characters_in(sample.out) == 54);
  check_refused(run_program("sample", {shop / "run", "--prompt", "ж"}), 2,
                "--prompt: the character 'ж' is not among");
  check_refused(run_program("sample", {shop / "run", "--prompt", "\xFF"}), 2,
                "--prompt: byte 0xff at offset 0 is not UTF-8; give one without it");
  done("attention_maps", Arguments{shop / "run", "--out", shop / "maps"} + data);
  done("attention_maps", {shop / "run", "--out", shop / "maps", "--prompt", "θ明ü"});
  done("train_shakespeare", Arguments{"--resume", "--out", shop / "run"} + data);
  check_refused(run_program("train_shakespeare", Arguments{"--resume", "--out", shop / "run", "--bytes"} + data), 2,
                "--bytes true: the run in");
}

TEST_CASE("own text: a folder of .txt files, in other programs too, with newlines made normal") {
  const Workshop shop;
  std::filesystem::create_directories(shop / "texts");
  write_bytes(shop / "texts/1.txt", many_scripts());
  write_bytes(shop / "texts/2.txt", "the end\r\n");
  const size_t size = many_scripts().size() + 9;
  const Arguments data{"--data", (shop / "texts").string() + "/"};
  const std::string whole = "texts (" + std::to_string(size) + " bytes, ";
  const std::string normal = "texts (" + std::to_string(size - 1) + " bytes, ";

  const Ended compared = done("compare", shop.tiny("all") + Arguments{"--attention", "softmax"} + data);
  CHECK(compared.out.find(whole) != std::string::npos);
  const Ended timed = done("bench", Arguments{"--json", "step"} + shop.tiny_model() + data +
                                        Arguments{"--batch", "1", "--normalise-newlines"});
  CHECK(timed.out.find(normal) != std::string::npos);
  done("train_shakespeare", shop.tiny("run") + data + Arguments{"--normalise-newlines"});
  CHECK(config_of(shop / "run")["data"].get<std::string>().starts_with(normal));
  done("attention_maps", Arguments{shop / "run", "--out", shop / "maps"} + data);  // reads the data as the run did
}

TEST_CASE("own text: what is not UTF-8 trains with --bytes") {
  const Workshop shop;
  std::string text;
  for (int i = 0; i < 300; ++i)
    text +=
        "gr\xF6\xDF"
        "er ";
  write_bytes(shop / "latin.txt", text);
  const Arguments flags = shop.tiny("run") + Arguments{"--data", shop / "latin.txt"};
  check_refused(run_program("train_shakespeare", flags), 1,
                "latin.txt: byte 0xf6 at offset 2 is not UTF-8; convert the file");
  done("train_shakespeare", flags + Arguments{"--bytes"});
  CHECK(config_of(shop / "run")["settings"]["bytes"] == true);
  done("train_shakespeare", flags + Arguments{"--bytes", "--resume"});
  CHECK(done("sample", {shop / "run", "--prompt", "gr\xF6"}).out.starts_with("gr\xF6"));
}

TEST_CASE("runs of before there were code points have bytes for characters, and load and go on as they did") {
  const Workshop shop;
  write_bytes(shop / "my.txt", many_scripts());
  const Arguments flags = shop.tiny("all/softmax") + Arguments{"--data", shop / "my.txt"};
  done("train_shakespeare", flags + Arguments{"--bytes"});
  const std::filesystem::path run = shop / "all/softmax";
  const std::string prompt = "gr\xC3";
  const std::string before = done("sample", {run, "--prompt", prompt, "--tokens", "20"}).out;

  nlohmann::json config = config_of(run);
  for (const char* name : {"bytes", "normalise_newlines", "transpose"}) CHECK(config["settings"].erase(name) == 1);
  write_bytes(run / "config.json", config.dump(2));
  Safetensors weights = read_safetensors(run / "model.safetensors");
  CHECK(weights.metadata.erase("characters") == 1);
  write_safetensors(run / "model.safetensors", weights);

  CHECK(done("sample", {run, "--prompt", prompt, "--tokens", "20"}).out == before);
  done("attention_maps", {run, "--out", shop / "maps", "--data", shop / "my.txt"});
  done("train_shakespeare", {"--resume", "--out", run, "--data", shop / "my.txt"});
  done("compare", flags + Arguments{"--attention", "softmax", "--out", shop / "all", "--resume"});
}

TEST_CASE("own images: the folder of the files, other sizes and classes, columns turned to rows") {
  const Workshop shop;
  write_images(shop / "three", 8, 8);
  const Arguments flags = shop.tiny_images("run") + Arguments{"--data", shop / "three", "--batch", "4"};
  check_refused(run_program("train_mnist", flags + Arguments{"--patch", "3"}), 2,
                "--patch 3: does not divide images of 8 pixels a side; choose one of 1, 2, 4, 8");
  const Ended ended = done("train_mnist", flags + Arguments{"--patch", "2", "--transpose"});
  CHECK(ended.out.find("softmax on three (") != std::string::npos);
  CHECK(config_of(shop / "run")["settings"]["transpose"] == true);
  const Safetensors weights = read_safetensors(shop / "run/model.safetensors");
  CHECK(weights.tensors.at("head.weight").shape() == Shape{3, 16});
  CHECK(weights.tensors.at("pos.weight").shape() == Shape{16, 16});
  done("attention_maps", {shop / "run", "--out", shop / "maps", "--data", shop / "three"});

  write_images(shop / "wide", 8, 6);
  check_refused(run_program("train_mnist", shop.tiny_images("none") + Arguments{"--data", shop / "wide"}), 1,
                "has images of 8×6 pixels; the model takes square ones");
  write_bytes(shop / "three/emnist-three-test-images-idx3-ubyte.gz", gzipped(idx_bytes({0, 8, 8}, "")));
  write_bytes(shop / "three/emnist-three-test-labels-idx1-ubyte.gz", gzipped(idx_bytes({0}, "")));
  check_refused(run_program("train_mnist", flags + Arguments{"--patch", "2", "--out", shop / "none"}), 1,
                "has no test images; put some into the files with t10k or test in their names");
  CHECK_FALSE(std::filesystem::exists(shop / "none"));
}
