#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <optional>

#include <linnet/linnet.h>

#include "tests/nn/attention/attention_model.h"
#include "tests/support/files.h"
#include "tests/support/near.h"

using namespace linnet;
using linnet::test::near;

namespace {

struct Mlp : nn::Module {
  explicit Mlp(Generator& rng) : Module(rng) {}
  nn::Linear fc1{*this, "fc1", 784, 128};
  nn::Linear fc2{*this, "fc2", 128, 10};
  Tensor operator()(const Tensor& x) { return fc2(gelu(fc1(x))); }
};

/// Parameters and buffers of its own, a child, a list, and weights tied across modules.
struct Model : nn::Module {
  struct Inner : nn::Module {
    Inner(nn::Module& parent, std::string name, int64_t width)
        : Module(parent, std::move(name)), gain(parameter("gain", ones({width}))) {}
    Tensor gain;
  };
  struct Tied : nn::Module {
    Tied(nn::Module& parent, std::string name, const Tensor& weight) : Module(parent, std::move(name)) {
      parameter("weight", weight);
    }
  };

  explicit Model(Generator& rng) : Module(rng) {
    layers.add(3);
    layers.add(4);
  }
  Tensor scale = parameter("scale", zeros({2}));
  Tensor count = buffer("count", zeros({1}, DType::int64));
  nn::Embedding tok{*this, "tok", 5, 2};
  nn::ModuleList<Inner> layers{*this, "layers"};
  Tied head{*this, "head", tok.weight()};
};

std::vector<std::string> names_of(const std::vector<nn::NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("Module: parameters by dotted name, in order, tied ones once") {
  Generator rng(1);
  const Model model(rng);
  CHECK(names_of(model.named_parameters()) ==
        std::vector<std::string>{"scale", "tok.weight", "layers.0.gain", "layers.1.gain"});
  CHECK(names_of(model.named_buffers()) == std::vector<std::string>{"count"});
  CHECK(model.parameters().size() == 4);
  for (const Tensor& parameter : model.parameters()) CHECK(parameter.requires_grad());
  CHECK_FALSE(model.count.requires_grad());
  static_assert(!std::is_copy_constructible_v<Mlp> && !std::is_move_constructible_v<Mlp>);
}

TEST_CASE("Module: names are unique, not empty and without dots") {
  Generator rng(1);
  Model model(rng);
  CHECK_THROWS_WITH_AS(nn::Linear(model, "tok", 2, 2), doctest::Contains("'model' has a 'tok' already"), ValueError);
  CHECK_THROWS_WITH_AS(nn::Linear(model, "scale", 2, 2), doctest::Contains("has a 'scale' already"), ValueError);
  CHECK_THROWS_WITH_AS(nn::Linear(model, "", 2, 2), doctest::Contains("not empty"), ValueError);
  CHECK_THROWS_WITH_AS(nn::Linear(model, "a.b", 2, 2), doctest::Contains("no dots"), ValueError);
  CHECK_THROWS_WITH_AS(nn::Linear(model, "bad", 0, 2), doctest::Contains("bad (Linear 0→2): sizes"), ValueError);
  CHECK(model.parameters().size() == 4);  // none of these stayed registered
}

TEST_CASE("Module: one that is destroyed early leaves its parent") {
  Generator rng(1);
  Model model(rng);
  {
    std::optional<nn::Linear> extra(std::in_place, model, "extra", 2, 2);
    CHECK(model.parameters().size() == 6);
  }
  CHECK(model.parameters().size() == 4);
  const nn::Linear again(model, "extra", 2, 2);
}

TEST_CASE("Module: train and eval reach every module, freeze every parameter") {
  Generator rng(1);
  Model model(rng);
  CHECK(model.layers[1].training());
  model.eval();
  CHECK_FALSE(model.training());
  CHECK_FALSE(model.layers[1].training());
  CHECK_FALSE(nn::Linear(model, "late", 2, 2).training());
  model.train();
  CHECK(model.layers[1].training());

  model.freeze();
  for (const Tensor& parameter : model.parameters()) CHECK_FALSE(parameter.requires_grad());
  CHECK_FALSE(model.scale.requires_grad());
  model.unfreeze();
  CHECK(model.scale.requires_grad());
}

TEST_CASE("Module: a tape that outlives it still has its name") {
  Generator rng(1);
  auto model = std::make_unique<Mlp>(rng);
  const Tensor logits = model->fc2(ones({1, 128}));
  model.reset();
  backward(logits, {.grad = logits.detach()});
  CHECK_THROWS_WITH_AS(backward(logits, {.grad = logits.detach()}),
                       doctest::Contains("backward of fc2 (Linear 128→10): the tape was"), AutogradError);
}

TEST_CASE("Module: state goes from one to another, and through a file") {
  Generator rng(1), other_rng(2);
  const Model model(rng);
  Model other(other_rng);
  CHECK(model.tok.weight().to_vector<float>() != other.tok.weight().to_vector<float>());
  other.load_state(model.state());
  CHECK(model.tok.weight().to_vector<float>() == other.tok.weight().to_vector<float>());

  const linnet::test::TemporaryFolder folder;
  const auto path = folder / "model.safetensors";
  model.save(path, {{"note", "a test"}});
  Model third(other_rng);
  third.load(path);
  CHECK(model.tok.weight().to_vector<float>() == third.tok.weight().to_vector<float>());
  CHECK(read_safetensors(path).metadata.at("note") == "a test");
}

TEST_CASE("Module: a state that does not fit is refused whole, with everything that is wrong") {
  Generator rng(1);
  Model model(rng);
  TensorMap state = model.state();
  state["scale"] = ones({3});
  state["count"] = ones({1});
  state["layers.0.gain"] = full({3}, 7);
  state.erase("layers.1.gain");
  state["layers.2.gain"] = ones({4});
  try {
    model.load_state(state);
    FAIL("loaded");
  } catch (const ValueError& error) {
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(text.find("missing: layers.1.gain [4] float32") != std::string::npos);
    CHECK(text.find("unexpected: layers.2.gain [4] float32") != std::string::npos);
    CHECK(text.find("different: scale is [2] float32 here and [3] float32 there") != std::string::npos);
    CHECK(text.find("different: count is [1] int64 here and [1] float32 there") != std::string::npos);
  }
  CHECK(model.layers[0].gain.to_vector<float>() == std::vector<float>{1, 1, 1});
}

TEST_CASE("load_state: of very many names that are not the model's, a thousand are listed, and long ones cut off") {
  Generator rng(1);
  Model model(rng);
  TensorMap state = model.state();
  state[std::string(1000, '!')] = zeros({1});
  for (int i = 0; i < 4999; ++i) state["x" + std::to_string(i)] = zeros({1});
  std::string message;
  try {
    model.load_state(state);
  } catch (const ValueError& error) {
    message = error.what();
  }
  CHECK(message.find("unexpected: " + std::string(100, '!') + "… [1] float32\n") != std::string::npos);
  CHECK(std::count(message.begin(), message.end(), '\n') == 1 + 1000 + 1);
  CHECK(message.find("\n  unexpected: 4000 more\n") != std::string::npos);
}

TEST_CASE("Module: a lenient load copies what both have, and reports the rest") {
  Generator rng(1);
  Mlp from(rng), to(rng);
  TensorMap state = from.state();
  state.erase("fc1.bias");
  state["head.weight"] = zeros({2});
  const Tensor bias = to.fc1.state().at("bias").clone();
  const nn::IncompatibleKeys keys = to.load_state(state, {.strict = false});
  CHECK(keys.missing_keys == std::vector<std::string>{"fc1.bias"});
  CHECK(keys.unexpected_keys == std::vector<std::string>{"head.weight"});
  CHECK(allclose(to.state().at("fc2.weight"), from.state().at("fc2.weight"), 0, 0));
  CHECK(allclose(to.state().at("fc1.bias"), bias, 0, 0));
  CHECK(to.load_state(from.state()).missing_keys.empty());

  state["fc2.bias"] = zeros({11});
  CHECK_THROWS_WITH_AS(to.load_state(state, {.strict = false}),
                       doctest::Contains("different: fc2.bias is [10] float32 here and [11] float32 there"),
                       ValueError);
  CHECK_THROWS_WITH_AS(to.load_state(state), doctest::Contains("missing: fc1.bias"), ValueError);
}

namespace {

nn::DecoderConfig small_decoder(nn::AttentionConfig attention) {
  attention.width = 8;
  attention.heads = 2;
  return {.vocabulary = 5, .context = 6, .layers = 2, .block = {.attention = attention}};
}

/// The differences that the error of a load lists; empty when there was none.
std::string refusal_of(nn::Module& model, const std::filesystem::path& path) {
  try {
    model.load(path);
  } catch (const ValueError& error) {
    const std::string text = error.what(), before = "build the model with the settings of the saved one\n";
    const size_t start = text.find(before) + before.size();
    return text.substr(start, text.rfind(" (") - start);  // where it was called
  }
  return "";
}

}  // namespace

TEST_CASE("Module: a file names the model's settings, and a model with others refuses it before it copies") {
  const linnet::test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "model.safetensors";
  Generator rng(1);
  nn::DecoderLM(rng,
                small_decoder({.mechanism = "fastmax2", .options = nn::FastmaxConfig{.scale = FastmaxScale::sqrt}}))
      .save(path);

  // The issue that this is for: fastmax2 of another scale has weights of the same names and shapes.
  nn::DecoderLM other(rng, small_decoder({.mechanism = "fastmax2"}));
  const Tensor before = other.state().at("tok.weight").clone();
  CHECK(
      refusal_of(other, path) ==
      "  different: fastmax_scale is 1 here and 0.5 there (with heads of 4: paper is 1, sqrt 0.5, unit 0.24975), in "
      "blocks.0.attention and 1 more\n");
  CHECK(allclose(other.state().at("tok.weight"), before, 0, 0));
  const nn::IncompatibleKeys keys = other.load(path, {.strict = false});
  REQUIRE(keys.settings.size() == 2);
  CHECK(keys.settings[0].name == "blocks.0.attention.fastmax_scale");
  CHECK(keys.settings[0].here == "1");
  CHECK(keys.settings[0].there == "0.5");
  CHECK(keys.settings[1].name == "blocks.1.attention.fastmax_scale");
  CHECK_FALSE(allclose(other.state().at("tok.weight"), before));

  nn::DecoderLM softmax(rng, small_decoder({}));
  CHECK(refusal_of(softmax, path) ==
        "  different: mechanism is softmax here and fastmax2 there, in blocks.0.attention and 1 more\n");

  // What was changed of a config of the same shapes, and the line that says so.
  const auto line_of = [&](const nn::DecoderConfig& config) {
    nn::DecoderLM model(rng, config);
    return refusal_of(model, path);
  };
  const nn::AttentionConfig same{.mechanism = "fastmax2", .options = nn::FastmaxConfig{.scale = FastmaxScale::sqrt}};
  nn::DecoderConfig config = small_decoder(same);
  config.block.attention.heads = 4;
  CHECK(line_of(config) ==
        "  different: heads is 4 here and 2 there, in blocks.0.attention and 1 more\n"
        "  different: fastmax_scale is 0.7071067811865475 here and 0.5 there (with heads of 2: paper is 1, sqrt "
        "0.7071067811865475, unit 0.4995), in blocks.0.attention and 1 more\n");
  config = small_decoder(same);
  config.block.pre_norm = false;
  CHECK(line_of(config) == "  different: pre_norm is false here and true there, in blocks.0 and 1 more\n");
  config = small_decoder(same);
  config.block.gelu = Gelu::tanh;
  CHECK(line_of(config) == "  different: gelu is tanh here and erf there, in blocks.0.mlp and 1 more\n");
  config = small_decoder(same);
  config.positions = nn::Positions::none;
  CHECK(line_of(config).starts_with("  different: positions is none here and learned there, in pos\n"));
  config = small_decoder(same);
  config.layers = 3;
  CHECK(line_of(config).starts_with("  different: layers is 3 here and 2 there\n  missing: blocks.2."));

  // Dropout and the form of a computation may differ, and so may the scale's name for one number.
  config = small_decoder(same);
  config.block.dropout = config.block.attention.dropout = 0.5;
  config.block.attention.options = nn::FastmaxConfig{.scale = 0.5, .form = FastmaxForm::factorised};
  CHECK(line_of(config).empty());
}

TEST_CASE("Module: every option of an attention that changes its result is a setting") {
  const linnet::test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "model.safetensors";
  Generator rng(1);
  struct Change {
    std::string setting;
    nn::AttentionConfig from, to;
  };
  const std::vector<Change> changes{
      {"causal", {}, {.causal = true}},
      {"rotary", {}, {.rotary = true}},
      {"heads", {}, {.heads = 4}},
      {"short_conv", {}, {.short_conv = 2}},
      {"interaction",
       {.mechanism = "fastformer"},
       {.mechanism = "fastformer", .options = nn::FastformerConfig{.interaction = Interaction::add}}},
      {"share_query_value",
       {.mechanism = "fastformer"},
       {.mechanism = "fastformer", .options = nn::FastformerConfig{.share_query_value = false}}},
      {"share_heads",
       {.mechanism = "fastformer"},
       {.mechanism = "fastformer", .options = nn::FastformerConfig{.share_heads = true}}},
      {"full_logits",
       {.mechanism = "fastformer"},
       {.mechanism = "fastformer", .options = nn::FastformerConfig{.full_logits = true}}},
      {"projections",
       {.mechanism = "fastformer"},
       {.mechanism = "fastformer", .options = nn::FastformerConfig{.projections = 4}}},
  };
  for (const auto& [setting, from, to] : changes) {
    const auto build = [&](nn::AttentionConfig config) {
      config.width = 8;
      if (config.heads == 1) config.heads = 2;
      return std::make_unique<linnet::test::AttentionModel>(rng, config);
    };
    build(from)->save(path);
    CHECK(refusal_of(*build(from), path).empty());
    CHECK_MESSAGE(refusal_of(*build(to), path).find("different: " + setting + " is ") != std::string::npos, setting);
  }
}

TEST_CASE("Module: load_state of a module compares settings, as load of a file does") {
  Generator rng(1);
  const nn::DecoderLM from(
      rng, small_decoder({.mechanism = "fastmax2", .options = nn::FastmaxConfig{.scale = FastmaxScale::sqrt}}));
  nn::DecoderLM to(rng, small_decoder({.mechanism = "fastmax2"}));
  CHECK_THROWS_WITH_AS(
      to.load_state(from),
      doctest::Contains("load_state: the other module does not fit the model; build the model with the "
                        "settings of the saved one\n  different: fastmax_scale is 1 here and 0.5 there"),
      ValueError);
  CHECK(to.load_state(from, {.strict = false}).settings.size() == 2);
  CHECK(allclose(to.state().at("tok.weight"), from.state().at("tok.weight"), 0, 0));
  nn::DecoderLM same(
      rng, small_decoder({.mechanism = "fastmax2", .options = nn::FastmaxConfig{.scale = FastmaxScale::sqrt}}));
  CHECK(same.load_state(from).settings.empty());
}

TEST_CASE("Setting: numbers and bools, with the digits that tell them apart") {
  const auto text = [](const auto& value) { return nn::Setting("name", value).value; };
  CHECK(text(true) == "true");
  CHECK(text(4) == "4");
  CHECK(text(int64_t{1} << 53) == "9007199254740992");
  CHECK(text(1e-7) == "1e-07");
  CHECK(text(0.1f) == "0.1");
  CHECK(text(0.1) == "0.1");
  CHECK(text(std::nextafter(0.1, 1)) == "0.10000000000000002");
  CHECK(text("gelu") == "gelu");
  CHECK_FALSE(nn::Setting("rate", 0.5).may_differ);
  CHECK(nn::Setting("rate", 0.5, /*may_differ=*/true).may_differ);
}

TEST_CASE("Module: files without settings, or with those of another version, load") {
  const linnet::test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "model.safetensors";
  Generator rng(1);
  nn::DecoderLM model(rng, small_decoder({}));
  model.save(path, {{"made", "by a test"}});
  const Safetensors saved = read_safetensors(path);
  CHECK(saved.metadata.at("made") == "by a test");
  CHECK(saved.metadata.at("linnet.settings.blocks.1.attention.heads") == "2");

  const auto load_with = [&](const std::map<std::string, std::string>& metadata) {
    write_safetensors(path, {.tensors = saved.tensors, .metadata = metadata});
    return refusal_of(model, path);
  };
  CHECK(load_with({}).empty());
  CHECK(load_with({{"linnet.settings.pos.reach", "4"}}).empty());
  CHECK(load_with({{"linnet.settings.pos.positions", "4"}}) ==
        "  different: positions is learned here and 4 there, in pos\n");
}

TEST_CASE("Module: summary") {
  Generator rng(1);
  Mlp model(rng);
  model.fc1.freeze();
  CHECK(model.summary() ==
        "name  kind            tensors                        parameters\n"
        "fc1   Linear 784→128  weight [128, 784], bias [128]     100,480\n"
        "fc2   Linear 128→10   weight [10, 128], bias [10]         1,290\n"
        "101,770 parameters, 1,290 of them trained, 407,080 bytes\n");
}

TEST_CASE("Module: errors name the layer and the user's line") {
  Generator rng(1);
  Mlp model(rng);
  CHECK_THROWS_WITH_AS(model.fc1(zeros({2, 700})), doctest::Contains("fc1 (Linear 784→128): "), ShapeError);
  CHECK_THROWS_WITH_AS(model.fc1(zeros({2, 700})), doctest::Contains("module_test.cpp:"), ShapeError);
  const nn::LayerNorm bare(model, "bare", 4, {.affine = false});
  CHECK_THROWS_WITH_AS(bare(zeros({2, 5})), doctest::Contains("bare (LayerNorm 4): x[2, 5] should end in 4"),
                       ShapeError);
}

TEST_CASE("Module: one dtype for a whole model") {
  Generator rng(1);
  nn::Sequential net(rng, DType::float64);
  net.add<nn::Linear>(3, 4).add([](const Tensor& x) { return relu(x); }).add<nn::LayerNorm>(4).add<nn::Linear>(4, 2);
  CHECK(names_of(net.named_parameters()) ==
        std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias", "3.weight", "3.bias"});
  CHECK(net(ones({5, 3}, DType::float64)).dtype() == DType::float64);
  CHECK(net(ones({5, 3}, DType::float64)).shape() == Shape{5, 2});
  CHECK(net.dtype() == DType::float64);
  CHECK(net.activation_dtype() == DType::float64);
  CHECK(nn::Sequential(rng).activation_dtype() == DType::float32);
  CHECK_THROWS_WITH_AS(nn::Sequential(rng, DType::int64),
                       "a model of int64: it must be float32, float64, or bfloat16 with float32 parameters",
                       DTypeError);
}

TEST_CASE("Module: a model of bfloat16 is for a GPU, which the CPU says before any work") {
  const char* message = "a model of bfloat16 on the CPU: bfloat16 is for GPUs alone; use float32, or Device::cuda";
  Generator rng(1);
  const Generator::State before = rng.state();
  const nn::DecoderConfig decoder{.vocabulary = 5, .context = 4, .block = {.attention = {.width = 4}}};
  const nn::PatchClassifierConfig classifier{.block = {.attention = {.width = 4}}};
  CHECK_THROWS_WITH_AS(nn::Sequential(rng, DType::bfloat16), message, DTypeError);
  CHECK_THROWS_WITH_AS(nn::DecoderLM(rng, decoder, DType::bfloat16), message, DTypeError);
  CHECK_THROWS_WITH_AS(nn::PatchClassifier(rng, classifier, DType::bfloat16), message, DTypeError);
  CHECK_THROWS_WITH_AS(nn::FastformerEncoder(rng, {}, DType::bfloat16), message, DTypeError);
  CHECK(rng.state().draws == before.draws);
}

TEST_CASE("Sequential: a module takes a tensor, with the caller's line or without") {
  /// As README writes one.
  struct Part : nn::Module {
    Part(Module& parent, std::string name, int64_t width)
        : Module(parent, std::move(name)), fc(*this, "fc", width, width) {}
    nn::Linear fc;
    Tensor operator()(const Tensor& x) { return relu(fc(x)); }
  };
  Generator rng(1);
  nn::Sequential net(rng);
  net.add<nn::PositionEmbedding>(nn::Positions::learned, 5, 4).add<Part>(4).add<nn::Linear>(4, 2);
  CHECK(names_of(net.named_parameters()) ==
        std::vector<std::string>{"0.weight", "1.fc.weight", "1.fc.bias", "2.weight", "2.bias"});
  CHECK(net(ones({5, 4})).shape() == Shape{5, 2});
  CHECK_THROWS_WITH_AS(nn::Sequential(rng).add<nn::Linear>(3, 2)(ones({5, 4})), doctest::Contains("module_test.cpp:"),
                       ShapeError);
}

TEST_CASE("Sequential: activations by name") {
  Generator rng(1);
  nn::Sequential net(rng);
  net.add(relu).add(tanh).add(gelu).add(sigmoid).add(silu).add([](const Tensor& x) { return softplus(x); });
  const Tensor x = tensor({-1, 0.5, 2});
  CHECK(allclose(net(x), softplus(silu(sigmoid(gelu(tanh(relu(x)))))), 0, 0));
}

TEST_CASE("Linear, Embedding: initial values as in PyTorch") {
  Generator rng(3);
  nn::Sequential net(rng);
  const nn::Linear linear(net, "linear", 400, 100);
  const double bound = 1.0 / 20;  // 1/√in
  CHECK(max(abs(linear.weight())).item<double>() <= bound);
  CHECK(max(abs(linear.weight())).item<double>() > 0.99 * bound);
  CHECK(std::abs(mean(linear.weight()).item<double>()) < 6e-4);
  CHECK(max(abs(linear.bias())).item<double>() <= bound);
  CHECK(max(abs(linear.bias())).item<double>() > 0.9 * bound);
  const nn::Embedding table(net, "table", 200, 200);
  CHECK(var(table.weight()).item<double>() == near(1, 0.03));
}

TEST_CASE("init: bounds and variances") {
  Generator rng(4);
  Tensor weight = zeros({300, 200});
  const auto variance = [&] { return var(weight).item<double>(); };
  nn::init::xavier_uniform_(weight, rng);
  CHECK(max(weight).item<double>() <= std::sqrt(6.0 / 500));
  CHECK(variance() == near(2.0 / 500, 0.03));
  nn::init::xavier_normal_(weight, rng, 2);
  CHECK(variance() == near(4 * 2.0 / 500, 0.03));
  nn::init::kaiming_uniform_(weight, rng);
  CHECK(max(weight).item<double>() <= std::sqrt(6.0 / 200));
  CHECK(variance() == near(2.0 / 200, 0.03));
  nn::init::kaiming_normal_(weight, rng, 1);
  CHECK(variance() == near(1.0 / 200, 0.03));
  nn::init::uniform_(weight, rng, 2, 4);
  CHECK(min(weight).item<double>() >= 2);
  CHECK(variance() == near(4.0 / 12, 0.03));
  nn::init::ones_(weight);
  CHECK(sum(weight).item<double>() == 60'000);
  Tensor row = zeros({3});
  CHECK_THROWS_WITH_AS(
      nn::init::kaiming_uniform_(row, rng, 0, {"a.cpp", 7}),
      "kaiming_uniform_: a tensor of shape [3] has no fan in and fan out; use uniform_ or normal_ (a.cpp:7)",
      ShapeError);
  nn::Sequential net(rng);
  const nn::Linear layer(net, "layer", 3, 3);
  nn::init::ones_(layer.weight());
  CHECK(layer.weight().to_vector<float>() == std::vector<float>(9, 1));
}

TEST_CASE("Dropout: in training only, from the model's generator") {
  Generator rng(5);
  nn::Sequential net(rng);
  net.add<nn::Dropout>(0.25);
  const Tensor x = ones({10'000});
  const Tensor y = net(x);
  CHECK(mean(y).item<double>() == near(1, 0.03));
  CHECK(max(y).item<double>() == near(4.0 / 3, 1e-6));
  CHECK(net(x).to_vector<float>() != y.to_vector<float>());
  net.eval();
  CHECK(net(x).to_vector<float>() == x.to_vector<float>());
  CHECK_THROWS_WITH_AS(net.add<nn::Dropout>(1.0), doctest::Contains("must be in [0, 1)"), ValueError);
}

TEST_CASE("positions: sinusoids, rotations, and the end of learned ones") {
  const std::vector<double> table = nn::sinusoidal_positions(2, 4, 3, DType::float64).to_vector<double>();
  const std::vector<double> expected = {std::sin(3.0), std::cos(3.0), std::sin(0.03), std::cos(0.03),
                                        std::sin(4.0), std::cos(4.0), std::sin(0.04), std::cos(0.04)};
  for (size_t i = 0; i < expected.size(); ++i) CHECK(table[i] == near(expected[i], 1e-14));

  // A product of rotated vectors depends on the distance alone.
  Generator rng(6);
  const Tensor q = randn({1, 8}, rng, DType::float64), k = randn({1, 8}, rng, DType::float64);
  const auto product = [&](int64_t i, int64_t j) { return sum(nn::rotate(q, i) * nn::rotate(k, j)).item<double>(); };
  CHECK(product(7, 4) == near(product(1007, 1004), 1e-11));
  CHECK(product(7, 4) != near(product(7, 5), 1e-3));
  CHECK(nn::rotate(q, 0).to_vector<double>() == q.to_vector<double>());
  CHECK_THROWS_AS(nn::rotate(zeros({2, 3})), ShapeError);

  nn::Sequential net(rng);
  const nn::PositionEmbedding pos(net, "pos", nn::Positions::learned, 8, 4);
  CHECK(pos(zeros({1, 8, 4})).shape() == Shape{1, 8, 4});
  CHECK_THROWS_WITH_AS(pos(zeros({1, 9, 4})), doctest::Contains("9 tokens, but learned positions end at 8"),
                       ValueError);
  CHECK_THROWS_WITH_AS(pos(zeros({1, 1, 4}), 8), doctest::Contains("sinusoidal or rotary"), ValueError);
}
