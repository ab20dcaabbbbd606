#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <optional>

#include <linnet/linnet.h>

#include "tests/support/files.h"

using namespace linnet;

namespace {

struct Mlp : nn::Module {
  explicit Mlp(Generator& rng) : Module(rng) {}
  nn::Linear fc1{*this, "fc1", 784, 128};
  nn::Linear fc2{*this, "fc2", 128, 10};
  Tensor operator()(const Tensor& x) { return fc2(gelu(fc1(x))); }
};

/// A module with its own parameters and buffers, a child, a list, and weights tied across modules.
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

TEST_CASE("Module: modules in the order of construction, by dotted name") {
  Generator rng(1);
  Model model(rng);
  std::vector<std::string> names;
  for (const auto& [name, module] : model.named_modules()) {
    names.push_back(name);
    CHECK(module->path() == name);
  }
  CHECK(names == std::vector<std::string>{"", "tok", "layers", "layers.0", "layers.1", "head"});
  CHECK(model.modules().size() == names.size());
  CHECK(model.modules()[0] == &model);
  CHECK(model.modules()[4] == &model.layers[1]);
  CHECK(model.layers.named_modules()[1].name == "0");
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

TEST_CASE("Module: a state of names with a prefix is refused with what to do") {
  Generator rng(1);
  Model model(rng);
  TensorMap state;
  for (const auto& [name, tensor] : model.state()) state["net.module." + name] = tensor;
  const char* remedy =
      "the names there begin with 'net.module.'; nn::Checkpoint loads a model from the file of a whole";
  CHECK_THROWS_WITH_AS(model.load_state(state), doctest::Contains(remedy), ValueError);
  state.erase("net.module.scale");  // another model's
  try {
    model.load_state(state);
    FAIL("loaded");
  } catch (const ValueError& error) {
    CHECK(std::string(error.what()).find("begin with") == std::string::npos);
  }
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

TEST_CASE("Module: a state may have any of the names of a tied parameter, or several with equal values") {
  const linnet::test::TemporaryFolder folder;
  Generator rng(1);
  Model model(rng);
  TensorMap state;
  for (const auto& [name, tensor] : model.state()) state[name] = tensor.clone();
  const auto fill = [&](const std::string& name, double value) { state[name] = full({5, 2}, value); };
  const auto tok = [&] { return model.tok.weight().to_vector<double>(); };
  fill("tok.weight", 7);
  fill("head.weight", 7);  // PyTorch's state_dict has both
  CHECK(model.load_state(state).unexpected_keys.empty());
  CHECK(tok() == std::vector<double>(10, 7));
  write_safetensors(folder / "both", {.tensors = state});
  CHECK(model.load(folder / "both").unexpected_keys.empty());
  fill("tok.weight", NAN);
  fill("head.weight", NAN);  // a model that has diverged
  CHECK_NOTHROW(model.load_state(state));
  state.erase("tok.weight");
  fill("head.weight", 3);
  CHECK(model.load_state(state, {.strict = false}).missing_keys.empty());
  CHECK(tok() == std::vector<double>(10, 3));

  const char* message = "different: tok.weight and head.weight are one tensor here and have different values there";
  fill("tok.weight", 4);
  CHECK_THROWS_WITH_AS(model.load_state(state), doctest::Contains(message), ValueError);
  CHECK_THROWS_WITH_AS(model.load_state(state, {.strict = false}), doctest::Contains(message), ValueError);
  state["tok.weight"] = full({5, 2}, 3, DType::float64);
  CHECK_THROWS_WITH_AS(model.load_state(state), doctest::Contains(message), ValueError);
  CHECK(tok() == std::vector<double>(10, 3));
}

TEST_CASE("Module: a parameter of its own comes before those of its modules, and gives a tied one its name") {
  struct Own : nn::Module {
    explicit Own(Generator& rng) : Module(rng) {}
    nn::Embedding tok{*this, "tok", 5, 2};
    Tensor head = parameter("head", tok.weight());
    Tensor bias = parameter("bias", zeros({5}));
  };
  Generator rng(1);
  Own model(rng);
  CHECK(names_of(model.named_parameters()) == std::vector<std::string>{"head", "bias"});
  model.load_state({{"tok.weight", ones({5, 2})}, {"bias", ones({5})}});
  CHECK(model.head.to_vector<double>() == std::vector<double>(10, 1));
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
  /// A module as in README.
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

TEST_CASE("Sequential: its modules by position") {
  Generator rng(1);
  nn::Sequential net(rng);
  net.add<nn::Linear>(3, 2).add(relu).add<nn::LayerNorm>(2).add(tanh);
  CHECK(net.size() == 4);
  CHECK(net.at<nn::Linear>(0).weight().shape() == Shape{2, 3});
  CHECK(&net.at<nn::LayerNorm>(-2) == net.modules()[2]);
  CHECK(&net.at<nn::Module>(2) == net.modules()[2]);
  CHECK_THROWS_WITH_AS(net.at<nn::Linear>(4), doctest::Contains("has no module 4: they run from -4 to 3"),
                       IndexError);
  CHECK_THROWS_WITH_AS(net.at<nn::LayerNorm>(0),
                       doctest::Contains("has the module Linear 3→2 at position 0, which is of another type"),
                       ValueError);
  struct Own : nn::Module {
    Own(Module& parent, std::string name) : Module(parent, std::move(name)) {}
    Tensor operator()(const Tensor& x) const { return x; }
  };
  net.add<Own>();
  CHECK_THROWS_WITH_AS(net.at<nn::Linear>(-1), doctest::Contains("has a module at position 4, which is of"),
                       ValueError);
  for (const int64_t i : {1, 3}) {
    CHECK_THROWS_WITH_AS(net.at<nn::Linear>(i), doctest::Contains("has a function at position"), ValueError);
  }
}

TEST_CASE("Sequential: activations by name") {
  Generator rng(1);
  nn::Sequential net(rng);
  net.add(relu).add(tanh).add(gelu).add(sigmoid).add(silu).add([](const Tensor& x) { return softplus(x); });
  const Tensor x = tensor({-1, 0.5, 2});
  CHECK(allclose(net(x), softplus(silu(sigmoid(gelu(tanh(relu(x)))))), 0, 0));
}
