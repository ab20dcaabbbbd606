/// The encoder as its authors released it: their weights, by their names, give their outputs and gradients.

#include <doctest/doctest.h>

#include <filesystem>

#include <linnet/linnet.h>

#include "tests/support/files.h"
#include "tests/support/near.h"
#include "tests/support/real_data.h"

using namespace linnet;
using linnet::test::relative_error;

namespace {

const std::filesystem::path kOwnFixture =
    std::filesystem::path(LINNET_TEST_DATA) / "goldens/weights/released_fastformer.safetensors";

int64_t number(const Safetensors& file, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto found = file.metadata.find(name); found != file.metadata.end()) return std::stoll(found->second);
  }
  throw std::runtime_error("the fixture does not say its sizes");
}

nn::FastformerEncoderConfig config_of(const Safetensors& file) {
  return {.width = number(file, {"width", "hidden_size"}),
          .heads = number(file, {"heads", "num_attention_heads"}),
          .hidden = number(file, {"hidden", "intermediate_size"}),
          .layers = number(file, {"layers", "num_hidden_layers"}),
          .max_tokens = number(file, {"max_tokens", "max_position_embeddings"}),
          .dropout = 0};
}

/// The gradients in the golden file, by the names of linnet's parameters.
const std::map<std::string, std::string> kGradients{
    {"layers.0.attention.query.weight", "encoders.0.attention.self.query.weight"},
    {"layers.0.attention.w_q", "encoders.0.attention.self.query_att.weight"},
    {"layers.1.attention.query.weight", "encoders.1.attention.self.query.weight"},
    {"layers.1.attention.w_q", "encoders.1.attention.self.query_att.weight"}};

void reproduce(const std::filesystem::path& path, DType dtype, double bound) {
  const Safetensors file = read_safetensors(path);
  const auto tensor = [&](const std::string& name) { return file.tensors.at("test." + name); };
  Generator rng(1);
  nn::FastformerEncoder encoder(rng, config_of(file), dtype);
  nn::load_released_fastformer(encoder, path, "test.");
  const Tensor x = tensor("input").to(dtype).set_requires_grad();
  const Tensor y = encoder(x, ne(tensor("attention_mask"), 0));
  backward(y, {.grad = tensor("output_gradient").to(dtype)});
  const auto check = [&](const Tensor& actual, const std::string& name) {
    CAPTURE(name);
    CHECK(relative_error(actual.to(DType::float64), tensor(name).to_vector<double>()) < bound);
  };
  check(y, "output");
  check(x.grad(), "input_gradient");
  for (const auto& [name, parameter] : encoder.named_parameters()) {
    const auto known = kGradients.find(name);
    if (known != kGradients.end()) check(parameter.grad(), "gradient." + known->second);
  }
}

}  // namespace

TEST_CASE("FastformerEncoder: released weights give the outputs and gradients of their formulas") {
  reproduce(kOwnFixture, DType::float64, 1e-10);
  reproduce(kOwnFixture, DType::float32, 1e-5);
}

TEST_CASE("FastformerEncoder: the published code's own results") {
  const auto path = linnet::test::real_data("../fixtures/fastformer_released.safetensors");
  if (!path) return;
  reproduce(*path, DType::float64, 1e-10);
  reproduce(*path, DType::float32, 1e-5);
}

TEST_CASE("load_released_fastformer: lists all that does not fit, and copies nothing") {
  const linnet::test::TemporaryFolder folder;
  Safetensors file = read_safetensors(kOwnFixture);
  file.tensors.erase("poolers.0.att_fc1.bias");
  file.tensors["encoders.1.output.dense.weight"] = zeros({10, 12}, DType::float64);
  file.tensors["encoders.2.output.dense.bias"] = zeros({12}, DType::float64);
  write_safetensors(folder / "weights", file);

  Generator rng(1);
  nn::FastformerEncoder encoder(rng, config_of(file), DType::float64);
  const std::vector<double> before = encoder.state().at("pos.weight").to_vector<double>();
  std::string message;
  try {
    nn::load_released_fastformer(encoder, folder / "weights", "test.");
  } catch (const ValueError& error) {
    message = error.what();
  }
  for (const std::string part : {"poolers.0.att_fc1.bias", "encoders.1.output.dense.weight", "[10, 12]", "[12, 10]",
                                 "encoders.2.output.dense.bias"}) {
    CAPTURE(part);
    CAPTURE(message);
    CHECK(message.find(part) != std::string::npos);
  }
  CHECK(encoder.state().at("pos.weight").to_vector<double>() == before);
  CHECK_THROWS_WITH_AS(nn::load_released_fastformer(encoder, kOwnFixture), doctest::Contains("test.input"),
                       ValueError);
}

TEST_CASE("FastformerEncoder: padding, and sequences of nothing else") {
  for (const bool released : {true, false}) {
    Generator rng(2);
    const nn::FastformerEncoder encoder(
        rng, {.width = 8, .heads = 2, .hidden = 8, .max_tokens = 6, .dropout = 0, .released = released});
    const Tensor x = randn({2, 5, 8}, rng);
    Tensor padding_mask = ones({2, 5}, DType::boolean);
    padding_mask.narrow(0, 0, 1).narrow(1, 3, 2).fill_(false);
    padding_mask.narrow(0, 1, 1).fill_(false);
    Tensor other = x.clone();
    other.narrow(0, 0, 1).narrow(1, 3, 2).fill_(1e6);
    const std::vector<float> y = encoder(x, padding_mask).to_vector<float>();
    CHECK(encoder(other, padding_mask).to_vector<float>() == y);
    CHECK(std::vector<float>(y.begin() + 8, y.end()) == std::vector<float>(8, 0.0F));
    CHECK_THROWS_WITH_AS(encoder(randn({1, 7, 8}, rng)), doctest::Contains("learned positions end at 6"), ValueError);
    CHECK_THROWS_AS(encoder(x, ones({2, 4}, DType::boolean)), ShapeError);
  }
}

TEST_CASE("FastformerEncoder: layers that share their weights, and a part of a larger model") {
  struct Model : nn::Module {
    explicit Model(Generator& rng) : Module(rng) {}
    nn::FastformerEncoder encoder{
        *this,
        "encoder",
        {.width = 8, .heads = 2, .hidden = 8, .layers = 3, .max_tokens = 4, .dropout = 0, .share_layers = true}};
  };
  Generator rng(3);
  const Model model(rng);
  CHECK(model.state().contains("encoder.layers.0.norm2.bias"));
  CHECK_FALSE(model.state().contains("encoder.layers.1.norm2.bias"));
  const Tensor x = randn({1, 4, 8}, rng);
  CHECK(model.encoder(x).shape() == Shape{1, 8});
  CHECK(model.encoder.tokens(x).shape() == Shape{1, 4, 8});
}

TEST_CASE("AttentionPooling: by its formula") {
  struct Model : nn::Module {
    explicit Model(Generator& rng) : Module(rng, DType::float64) {}
    nn::AttentionPooling pool{*this, "pool", 6};
  };
  Generator rng(4);
  const Model model(rng);
  const TensorMap w = model.state();
  const Tensor x = randn({2, 5, 6}, rng, DType::float64);
  const Tensor scores = linear(tanh(linear(x, w.at("pool.fc1.weight"), w.at("pool.fc1.bias"))),
                               w.at("pool.fc2.weight"), w.at("pool.fc2.bias"));
  const Tensor expected = sum(softmax(scores, 1) * x, {1});
  CHECK(relative_error(model.pool(x), expected.to_vector<double>()) < 1e-14);
  CHECK_THROWS_AS(model.pool(x.select(0, 0)), ShapeError);
}
