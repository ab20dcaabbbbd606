/// attention_maps: the maps that it reads from models, the pictures that it draws of them, and its errors.

#include <doctest/doctest.h>

#include <cmath>

#include "support/run/model_maps.h"
#include "tests/examples/plot/picture.h"
#include "tests/examples/run/ended_checks.h"
#include "tests/examples/run/tiny_run.h"
#include "tests/nn/data/idx_file.h"
#include "tests/support/gpu.h"

using namespace linnet;
using namespace linnet::examples;
using namespace linnet::examples::test;
using linnet::test::Ended;
using linnet::test::idx_bytes;
using linnet::test::read_bytes;
using linnet::test::run_program;
using linnet::test::write_bytes;

namespace {

constexpr uint32_t kImages = 130;  // two more than a batch of preset mnist-small

/// A Workshop that also has images, each bright at the place that its number gives.
void add_images(const Workshop& shop) {
  std::string pixels, labels;
  for (uint32_t i = 0; i < kImages; ++i) {
    labels += static_cast<char>(i % 10);
    for (uint32_t p = 0; p < 28 * 28; ++p) pixels += p / 79 == i % 10 ? '\xFF' : '\0';
  }
  std::filesystem::create_directories(shop / "data/mnist");
  for (const std::string part : {"train", "t10k"}) {
    write_bytes(shop / ("data/mnist/" + part + "-images-idx3-ubyte"), idx_bytes({kImages, 28, 28}, pixels));
    write_bytes(shop / ("data/mnist/" + part + "-labels-idx1-ubyte"), idx_bytes({kImages}, labels));
  }
}

/// Trains `mechanism` for a few steps on text and on images, in the folders <mechanism> and images-<mechanism>.
void train_text(const Workshop& shop, const std::string& mechanism) {
  REQUIRE(
      run_program("train_shakespeare", shop.tiny(mechanism) + Arguments{"--attention", mechanism, "--layers", "2"})
          .code == 0);
}
void train_images(const Workshop& shop, const std::string& mechanism) {
  Arguments flags = shop.tiny_images("images-" + mechanism) + Arguments{"--attention", mechanism, "--layers", "2"};
  REQUIRE(run_program("train_mnist", flags + Arguments{"--data", shop / "data"}).code == 0);
}

/// The flags, with --data unless a prompt is read in its place.
Arguments with_data(const Workshop& shop, const Arguments& flags) {
  if (std::ranges::count(flags, "--prompt") + std::ranges::count(flags, "--data") > 0) return flags;
  return flags + Arguments{"--data", shop / "data"};
}

/// Draws into `out`, which then holds only this picture.
Picture draw(const Workshop& shop, const std::string& out, const std::string& picture, const Arguments& flags) {
  const Ended ended = run_program("attention_maps", with_data(shop, flags) + Arguments{"--out", shop / out});
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  CHECK(ended.out.ends_with("picture: " + (shop / out / picture).string() + "\n"));
  return Picture(shop / out / picture);
}

Settings machine_of(const Workshop& shop) {
  Settings machine;
  machine.data = shop / "data";
  return machine;
}

}  // namespace

TEST_CASE("attention maps of trained models: rows whose largest is 1, and nothing of what comes later") {
  const Workshop shop;
  add_images(shop);
  for (const std::string mechanism : {"softmax", "fastmax1", "fastmax2", "fastformer", "linear", "performer"}) {
    CAPTURE(mechanism);
    train_text(shop, mechanism);
    const ModelMaps model = read_maps(shop / mechanism, {.prompt = "to be, or"}, machine_of(shop));
    CHECK(model.settings.attention == mechanism);
    CHECK(model.data == Workshop::kTextName);
    CHECK(model.tokens.size() == 9);
    CHECK(model.maps_per_layer() == (mechanism == "fastformer" ? 2 : 1));
    CHECK(std::ssize(model.maps) == 2 * model.maps_per_layer());
    const HeatMap map = heat_map_of(model, 1, 1);
    CHECK(map.rows == 9);
    CHECK(map.cols == 9);
    CHECK(map.x_ticks == model.tokens);
    for (int64_t i = 0; i < 9; ++i) {
      const auto row = map.values.begin() + 9 * i;
      CHECK(*std::max_element(row, row + i + 1) == 1);
      CHECK(*std::min_element(row, row + i + 1) > 0);
      CHECK(std::all_of(row + i + 1, row + 9, [](double value) { return std::isnan(value); }));
    }
  }
  for (const std::string mechanism : {"softmax", "fastformer", "linformer", "informer"}) {
    CAPTURE(mechanism);
    train_images(shop, mechanism);
    const ModelMaps model = read_maps(shop / ("images-" + mechanism), {.image = 13}, machine_of(shop));
    CHECK(model.input == "test image 13, label 3");
    const HeatMap map = heat_map_of(model, 0, 0);
    CHECK(map.rows == (mechanism == "fastformer" ? 1 : 16));
    CHECK(map.cols == 16);
    for (auto row = map.values.begin(); row != map.values.end(); row += 16) {
      CHECK(*std::max_element(row, row + 16) == 1);
      CHECK(*std::min_element(row, row + 16) >= 0);
    }
    CHECK(std::none_of(map.values.begin(), map.values.end(), [](double value) { return std::isnan(value); }));
    const ModelMaps other = read_maps(shop / ("images-" + mechanism), {}, machine_of(shop));
    CHECK(other.input == "test image 0, label 0");
    CHECK(heat_map_of(other, 0, 0).values != map.values);
  }
}

TEST_CASE(
    "attention maps of windows, pools, blocks and buckets: 0 where a token sees nothing, and no division by it") {
  const Workshop shop;
  add_images(shop);
  const auto largest_of_rows = [](const HeatMap& map) {
    std::vector<double> largest;
    for (int64_t i = 0; i < map.rows; ++i) {
      const auto row = map.values.begin() + i * map.cols;
      const auto end = std::find_if(row, row + map.cols, [](double value) { return std::isnan(value); });
      REQUIRE(end != row);
      CHECK(*std::min_element(row, end) >= 0);
      largest.push_back(*std::max_element(row, end));
    }
    return largest;
  };
  for (const std::string mechanism : {"longformer", "poolingformer", "reformer"}) {
    CAPTURE(mechanism);
    train_text(shop, mechanism);
    const ModelMaps model = read_maps(shop / mechanism, {.prompt = "to be, or"}, machine_of(shop));
    CHECK(model.maps_per_layer() == (mechanism == "poolingformer" ? 2 : 1));
    CHECK(largest_of_rows(heat_map_of(model, 0, 1)) == std::vector<double>(9, 1));
    if (mechanism != "poolingformer") continue;
    // The first pool ends with token 4, and the second one with token 8.
    CHECK(largest_of_rows(heat_map_of(model, 1, 1)) == std::vector<double>{0, 0, 0, 0, 1, 1, 1, 1, 1});
    draw(shop, "pools", "maps.png", {shop / mechanism, "--prompt", "to be, or"});
  }
  for (const std::string mechanism : {"longformer", "bigbird", "poolingformer", "reformer"}) {
    CAPTURE(mechanism);
    train_images(shop, mechanism);
    const ModelMaps model = read_maps(shop / ("images-" + mechanism), {.image = 13}, machine_of(shop));
    CHECK(largest_of_rows(heat_map_of(model, 0, 0)) == std::vector<double>(16, 1));
  }
}

TEST_CASE("attention_maps draws all heads of a model, or those that are chosen") {
  const Workshop shop;
  train_text(shop, "fastformer");
  const Arguments model{shop / "fastformer", "--prompt", "to be, or not"};
  const Picture all = draw(shop, "all", "maps.png", model);
  CHECK(names_in(shop / "all") == std::vector<std::string>{"maps.png"});
  CHECK(all.height() > 1.5 * all.width());  // two maps for each of two layers, below each other
  draw(shop, "again", "maps.png", model);
  CHECK(read_bytes(shop / "again/maps.png") == read_bytes(shop / "all/maps.png"));
  const Picture layer = draw(shop, "layer", "maps.png", model + Arguments{"--layer", "2"});
  CHECK(layer.height() < 0.7 * all.height());
  // α and β side by side
  const Picture head = draw(shop, "head", "maps.png", model + Arguments{"--layer", "2", "--head", "1"});
  CHECK(head.height() < 0.7 * layer.height());
  draw(shop, "text", "maps.png", {shop / "fastformer"});  // the validation text
}

TEST_CASE("attention_maps --figure: a head of each model that is named, or of those that it trains") {
  const Workshop shop;
  add_images(shop);
  const Picture four = draw(shop, "figure", "figure4.png", {"--figure", "--steps", "1"});
  CHECK(names_in(shop / "figure") == std::vector<std::string>{"figure4.png", "mnist-fastmax2", "mnist-softmax",
                                                              "shakespeare-fastmax2", "shakespeare-softmax"});
  const Arguments same{"--figure", shop / "figure/mnist-softmax", shop / "figure/mnist-fastmax2",
                       shop / "figure/shakespeare-softmax", shop / "figure/shakespeare-fastmax2"};
  draw(shop, "again", "figure4.png", same);
  CHECK(read_bytes(shop / "again/figure4.png") == read_bytes(shop / "figure/figure4.png"));
  const Picture one =
      draw(shop, "one", "figure4.png", {"--figure", shop / "figure/shakespeare-softmax", "--head", "4"});
  CHECK(one.width() < 0.7 * four.width());

  const Ended ended =
      run_program("attention_maps", {"--figure", "--out", shop / "figure", "--data", shop / "data", "--steps", "1"});
  CHECK(ended.code == 1);
  CHECK(contains(ended.err, "mnist-softmax holds a run already"));
}

TEST_CASE("attention_maps --figure trains at the precision that it is given, and goes on at no other") {
  if (!linnet::test::has_gpu("the precision of attention_maps --figure")) return;
  const Workshop shop;
  add_images(shop);
  const Arguments flags{"--figure", "--steps", "1", "--device", "cuda", "--precision", "tf32"};
  draw(shop, "figure", "figure4.png", flags);
  CHECK(contains(read_bytes(shop / "figure/mnist-softmax/config.json"), "\"precision\": \"tf32\""));
  const Ended ended = run_program(
      "attention_maps",
      flags + Arguments{"--precision", "float32", "--out", shop / "figure", "--data", shop / "data", "--resume"});
  CHECK(ended.code == 2);
  CHECK(contains(ended.err, "has precision \"tf32\", not \"float32\"; give the flags that it began with"));
}

TEST_CASE("attention_maps: what it refuses, and then it writes nothing") {
  const Workshop shop;
  add_images(shop);
  train_text(shop, "softmax");
  train_images(shop, "softmax");
  const std::filesystem::path text = shop / "softmax", images = shop / "images-softmax";
  const auto refused = [&](int code, const std::string& part, const Arguments& flags) {
    CAPTURE(part);
    const Ended ended = run_program("attention_maps", with_data(shop, flags) + Arguments{"--out", shop / "drawn"});
    CAPTURE(ended.err);
    CHECK(ended.code == code);
    CHECK(contains(ended.err, part));
    CHECK_FALSE(std::filesystem::exists(shop / "drawn"));
  };
  refused(2, "give the folder of a model, or --figure", {});
  refused(2, "give one model, or --figure for one head of each", {text, images});
  refused(2, "--layer 3: softmax on shakespeare has layers 1 to 2", {text, "--layer", "3"});
  refused(2, "--head 0: softmax on mnist has heads 1 to 2", {images, "--head", "0"});
  refused(2, "--layer 5: softmax on shakespeare has layers 1 to 4", {"--figure", "--layer", "5"});
  refused(2, "--image does not apply to", {text, "--image", "1"});
  refused(2, "--prompt does not apply to", {images, "--prompt", "to be"});
  refused(2, "--image 130: the test images are 0 to 129", {images, "--image", "130"});
  refused(2, "--image -1: the test images are 0 to 129", {images, "--image", "-1"});
  refused(2, "--steps does not apply to a model that is trained already", {text, "--steps", "5"});
  refused(2, "--steps does not apply to models that are trained already", {"--figure", text, "--steps", "5"});
  refused(2, "--steps 0: must be at least 1", {"--figure", "--steps", "0"});
  refused(2, "--prompt does not apply to --figure", {"--figure", "--prompt", "to be"});
  refused(2, "--image does not apply to --figure", {"--figure", "--image", "1"});
  refused(2, "--data does not apply to --prompt, which is read instead of the validation text",
          {text, "--prompt", "to be", "--data", shop / "data"});
  refused(1, "nowhere/config.json': No such file or directory; is it the --out folder of a training run?",
          {shop / "nowhere"});
  refused(1, "the prompt is empty; give at least one character", {text, "--prompt", ""});
  refused(1, "the prompt has 1025 characters; a picture shows 1024 at the most",
          {text, "--prompt", std::string(1025, 'b')});
  refused(1, "the character 'X' is not among the", {text, "--prompt", "to beX"});
  refused(1, "17 tokens, but learned positions end at 16", {text, "--prompt", "to be, or not to "});
  refused(1, "nowhere: there is no such file or folder", {text, "--data", shop / "nowhere"});

  write_bytes(text / "model.safetensors", "no model");
  refused(1, "softmax/model.safetensors", {text, "--prompt", "to be"});
  write_bytes(images / "config.json", "{");
  refused(1, "config.json is damaged", {images});
}

TEST_CASE("attention_maps: of a long context it shows as much of the validation text as a picture takes") {
  const Workshop shop;
  std::string text;
  for (int i = 0; i < 11'000; ++i) text += "to be, or not\n"[i % 14];
  shop.set_text(text);
  REQUIRE(run_program("train_shakespeare",
                      shop.tiny("long") + Arguments{"--context", "1030", "--batch", "1", "--steps", "1"})
              .code == 0);
  const Ended ended = run_program("attention_maps", {shop / "long", "--out", shop / "drawn"});
  CAPTURE(ended.err);
  CHECK(ended.code == 0);
}

TEST_CASE("attention_maps: another data set than the one that the model learned from is refused") {
  if (stand_in_hidden("")) return;
  const Workshop shop;
  train_text(shop, "softmax");
  std::string config = read_bytes(shop / "softmax/config.json");  // as for a run without --data
  const size_t path = config.find("\"data_path\": ");
  REQUIRE(path != std::string::npos);
  write_bytes(shop / "softmax/config.json", config.erase(path, config.find("\n", path) - path));
  const Ended ended = run_program("attention_maps", {shop / "softmax", "--out", shop / "drawn"});
  CHECK(ended.code == 1);
  CHECK(contains(ended.err,
                 "learned from " + Workshop::kTextName + ", but there is linnet's own sources (stand-in) ("));
  CHECK(contains(ended.err, "); name its file or folder with --data, or give a --prompt"));
}
