#include <linnet/linnet.h>

#include "tests/cuda/agreement.h"

namespace linnet::test {
namespace {

/// Compares models of bfloat16 (bfloat16 activations, float32 parameters) with the same models of float32.

constexpr int64_t kVocabulary = 11, kWidth = 32, kTokens = 20, kBatch = 2;

/// Allowed relative errors. With every activation and its gradient rounded to bfloat16 on a CPU, the errors were up
/// to 0.012, 0.0011 and 0.014.
constexpr double kOutputs = 0.03, kLosses = 0.005, kGradients = 0.03;
/// For a parameter whose gradient nearly cancels: the error relative to the norm of all gradients.
constexpr double kCancelled = 0.003;

Tensor ids(const Shape& shape, int64_t below, uint64_t seed) {
  Generator rng(seed);
  return randint(0, below, shape, rng, DType::int64, Device::cuda);
}

Tensor noise(const Shape& shape, uint64_t seed) { return spread(shape, seed, DType::float32, Device::cuda); }

double error_of(const Tensor& actual, const Tensor& expected) {
  return relative_error(actual, expected.to_vector<double>());
}

double norm_of(const std::vector<double>& x) {
  double total = 0;
  for (const double each : x) total += each * each;
  return std::sqrt(total);
}

/// Gives all matrices numbers of the same size, so that attention weights and logits differ from each other as in a
/// trained model, and nothing saturates. Matrices that start as 0 stay 0.
void level(const nn::Module& model) {
  for (const Tensor& parameter : model.parameters()) {
    if (parameter.rank() < 2) continue;
    const double size = norm_of(parameter.to_vector<double>()) / std::sqrt(static_cast<double>(parameter.numel()));
    if (size > 0) parameter.detach().copy_(parameter.detach() * (0.18 / size));
  }
}

void have_the_same_parameters(const nn::Module& mixed, const nn::Module& single) {
  const auto actual = mixed.named_parameters(), expected = single.named_parameters();
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(actual[i].name);
    CHECK(actual[i].name == expected[i].name);
    CHECK(actual[i].tensor.dtype() == DType::float32);
    CHECK(actual[i].tensor.to_vector<float>() == expected[i].tensor.to_vector<float>());
  }
}

void have_close_gradients(const nn::Module& mixed, const nn::Module& single) {
  const auto actual = mixed.named_parameters(), expected = single.named_parameters();
  std::vector<double> all_differences, all;
  for (const auto& parameter : expected) {
    const std::vector<double> g = parameter.tensor.grad().to_vector<double>();
    all.insert(all.end(), g.begin(), g.end());
  }
  for (size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(actual[i].name);
    CHECK(actual[i].tensor.grad().dtype() == DType::float32);
    const std::vector<double> e = expected[i].tensor.grad().to_vector<double>();
    std::vector<double> difference = actual[i].tensor.grad().to_vector<double>();
    for (size_t j = 0; j < e.size(); ++j) difference[j] -= e[j];
    all_differences.insert(all_differences.end(), difference.begin(), difference.end());
    CHECK(norm_of(difference) <= kGradients * norm_of(e) + kCancelled * norm_of(all));
  }
  CHECK(norm_of(all_differences) <= kGradients * norm_of(all));
}

/// Compares the model of `make` in both dtypes, from one seed: the results of `run`, the loss and the gradients. Also
/// makes some steps of AdamW on the model of bfloat16.
template <class Make, class Run>
void compare(const std::string& what, const Make& make, const Run& run, const Tensor& targets) {
  CAPTURE(what);
  Generator of_single(5), of_mixed(5);
  const auto single = make(of_single, DType::float32);
  const auto mixed = make(of_mixed, DType::bfloat16);
  CHECK(mixed.dtype() == DType::float32);
  CHECK(mixed.activation_dtype() == DType::bfloat16);
  have_the_same_parameters(mixed, single);
  level(mixed);
  level(single);

  const Tensor expected = run(single), actual = run(mixed);
  CHECK(actual.dtype() == DType::float32);
  CHECK(error_of(actual, expected) < kOutputs);
  CHECK(error_of(actual, expected) > 1e-5);  // something was rounded
  const Tensor expected_loss = cross_entropy(expected, targets), loss = cross_entropy(actual, targets);
  CHECK(loss.item<double>() == near(expected_loss.item<double>(), kLosses));
  backward(expected_loss);
  backward(loss);
  have_close_gradients(mixed, single);

  nn::AdamW optimizer(mixed.parameters(), {.lr = 3e-3});
  for (int step = 0; step < 8; ++step) {
    optimizer.step();
    optimizer.zero_grad();
    backward(cross_entropy(run(mixed), targets));
  }
  const Tensor last_loss = cross_entropy(run(mixed), targets);
  CHECK(last_loss.item<double>() < 0.9 * loss.item<double>());
}

struct Family {
  std::string name;
  nn::AttentionConfig attention;
  nn::Positions positions = nn::Positions::learned;
  double dropout = 0;
  bool pre_norm = true;
};

nn::BlockConfig block_config(const Family& family) {
  nn::BlockConfig block{
      .attention = family.attention, .hidden = 2 * kWidth, .dropout = family.dropout, .pre_norm = family.pre_norm};
  block.attention.width = kWidth;
  block.attention.heads = 2;
  block.attention.max_tokens = kTokens;
  return block;
}

nn::DecoderConfig decoder_config(const Family& family) {
  return {.vocabulary = kVocabulary,
          .context = kTokens,
          .layers = 2,
          .block = block_config(family),
          .positions = family.positions};
}

/// The mechanisms with a causal form, except Reformer, whose buckets may depend on rounding.
std::vector<std::string> comparable_mechanisms() {
  std::vector<std::string> names = nn::causal_mechanisms();
  std::erase(names, "reformer");
  return names;
}

/// Every comparable mechanism with its defaults, and every option that changes the computation.
std::vector<Family> families() {
  std::vector<Family> all;
  for (const std::string& mechanism : comparable_mechanisms()) {
    all.push_back({mechanism, {.mechanism = mechanism}});
    all.push_back({mechanism + ", short convolution", {.mechanism = mechanism, .short_conv = 4}});
  }
  all.push_back({"softmax, rotary", {.mechanism = "softmax"}, nn::Positions::rotary});
  all.push_back({"fastmax2, rotary", {.mechanism = "fastmax2"}, nn::Positions::rotary});
  all.push_back({"softmax, sinusoidal", {.mechanism = "softmax"}, nn::Positions::sinusoidal});
  all.push_back({"softmax, norms behind", {.mechanism = "softmax"}, nn::Positions::learned, 0, /*pre_norm=*/false});
  all.push_back({"fastformer, concat",
                 {.mechanism = "fastformer", .options = nn::FastformerConfig{.interaction = Interaction::concat}}});
  all.push_back(
      {"fastformer, full logits", {.mechanism = "fastformer", .options = nn::FastformerConfig{.full_logits = true}}});
  all.push_back({"fastformer, shared heads",
                 {.mechanism = "fastformer", .options = nn::FastformerConfig{.share_heads = true}}});
  return all;
}

/// These, and the mechanisms without a causal form. Informer chooses all queries here, since a choice of fewer may
/// depend on rounding.
std::vector<Family> families_of_images() {
  std::vector<Family> all = families();
  all.push_back({"linformer", {.mechanism = "linformer"}});
  all.push_back({"linformer, key-value",
                 {.mechanism = "linformer",
                  .short_conv = 4,
                  .options = nn::LinformerConfig{.rank = 5, .share = nn::LinformerShare::key_value}}});
  all.push_back({"bigbird", {.mechanism = "bigbird", .options = nn::BigBirdConfig{.block = 2}}});
  all.push_back({"informer", {.mechanism = "informer", .options = nn::InformerConfig{.queries = kTokens}}});
  return all;
}

/// A model of only one block.
struct OneBlock : nn::Module {
  OneBlock(Generator& rng, DType dtype, const nn::BlockConfig& config)
      : Module(rng, dtype, Device::cuda), block(*this, "block", config) {}
  nn::Block block;
};

}  // namespace

TEST_CASE("gpu: layers of a bfloat16 model hand on bfloat16, near what float32 gives") {
  if (!has_gpu("layers of bfloat16 models on the GPU")) return;
  struct Layers : nn::Module {
    Layers(Generator& rng, DType dtype) : Module(rng, dtype, Device::cuda) {}
    nn::Linear linear{*this, "linear", kWidth, 24};
    nn::LayerNorm norm{*this, "norm", kWidth};
    nn::RMSNorm rms{*this, "rms", kWidth};
    nn::FeedForward mlp{*this, "mlp", kWidth, 48};
    nn::ShortConvolution conv{*this, "conv", kWidth, 3, true};
    nn::Dropout dropout{*this, "dropout", 0.3};
    nn::PositionEmbedding learned{*this, "learned", nn::Positions::learned, kTokens, kWidth};
    nn::PositionEmbedding sinusoidal{*this, "sinusoidal", nn::Positions::sinusoidal, 0, kWidth};
  };
  Generator of_single(1), of_mixed(1);
  const Layers single(of_single, DType::float32), mixed(of_mixed, DType::bfloat16);
  have_the_same_parameters(mixed, single);
  const Tensor x = noise({kBatch, kTokens, kWidth}, 2).to(DType::bfloat16), wide = x.to(DType::float32);
  const auto agree = [&](const char* what, const auto& layer) {
    CAPTURE(what);
    const Tensor actual = layer(mixed, x);
    CHECK(actual.dtype() == DType::bfloat16);
    CHECK(error_of(actual, layer(single, wide)) < 0.01);
  };
  agree("Linear", [](const Layers& of, const Tensor& h) { return of.linear(h); });
  agree("LayerNorm", [](const Layers& of, const Tensor& h) { return of.norm(h); });
  agree("RMSNorm", [](const Layers& of, const Tensor& h) { return of.rms(h); });
  agree("FeedForward", [](const Layers& of, const Tensor& h) { return of.mlp(h); });
  agree("ShortConvolution", [](const Layers& of, const Tensor& h) { return of.conv(h); });
  agree("Dropout", [](const Layers& of, const Tensor& h) { return of.dropout(h); });
  agree("learned positions", [](const Layers& of, const Tensor& h) { return of.learned(h); });
  agree("sinusoidal positions", [](const Layers& of, const Tensor& h) { return of.sinusoidal(h, 1000); });
  agree("rotate", [](const Layers&, const Tensor& h) { return nn::rotate(h, 100'000); });

  const Tensor rotated = nn::rotate(x, 100'000), exact = nn::rotate(wide, 100'000);
  CHECK(rotated.to_vector<float>() == exact.to(DType::bfloat16).to_vector<float>());
  CHECK(nn::sinusoidal_positions(5, 8, 100'000, DType::bfloat16, Device::cuda).to_vector<float>() ==
        nn::sinusoidal_positions(5, 8, 100'000, DType::float32, Device::cuda).to(DType::bfloat16).to_vector<float>());

  for (const Family& family : families_of_images()) {
    CAPTURE(family.name);
    nn::BlockConfig config = block_config(family);
    config.attention.rotary = family.positions == nn::Positions::rotary;
    Generator of_wide(3), of_narrow(3);
    const OneBlock expected(of_wide, DType::float32, config), actual(of_narrow, DType::bfloat16, config);
    const Tensor y = actual.block(x);
    CHECK(y.dtype() == DType::bfloat16);
    CHECK(error_of(y, expected.block(wide)) < kOutputs);
  }
}

TEST_CASE("gpu: language models of bfloat16 give the losses and gradients of float32, nearly, and learn") {
  if (!has_gpu("language models of bfloat16 on the GPU")) return;
  const Tensor inputs = ids({kBatch, kTokens}, kVocabulary, 1), targets = ids({kBatch, kTokens}, kVocabulary, 2);
  for (const Family& family : families()) {
    const auto make = [&](Generator& rng, DType dtype) {
      return nn::DecoderLM(rng, decoder_config(family), dtype, Device::cuda);
    };
    compare(family.name, make, [&](const nn::DecoderLM& model) { return model(inputs); }, targets);
  }
}

TEST_CASE("gpu: models of bfloat16 drop what models of float32 drop") {
  if (!has_gpu("dropout of bfloat16 models on the GPU")) return;
  const Tensor inputs = ids({kBatch, kTokens}, kVocabulary, 1), targets = ids({kBatch, kTokens}, kVocabulary, 2);
  for (const std::string& mechanism : comparable_mechanisms()) {
    const Family family{
        mechanism + ", dropout", {.mechanism = mechanism, .dropout = 0.1}, nn::Positions::learned, 0.2};
    const auto make = [&](Generator& rng, DType dtype) {
      return nn::DecoderLM(rng, decoder_config(family), dtype, Device::cuda);
    };
    compare(family.name, make, [&](const nn::DecoderLM& model) { return model(inputs); }, targets);
  }
}

TEST_CASE("gpu: image classifiers of bfloat16 give the losses and gradients of float32, nearly, and learn") {
  if (!has_gpu("image classifiers of bfloat16 on the GPU")) return;
  const Tensor images = noise({6, 64}, 1), labels = ids({6}, 10, 2);
  for (const Family& family : families_of_images()) {
    const auto make = [&](Generator& rng, DType dtype) {
      const nn::PatchClassifierConfig config{
          .side = 8, .patch = 2, .layers = 2, .block = block_config(family), .positions = family.positions};
      return nn::PatchClassifier(rng, config, dtype, Device::cuda);
    };
    compare(family.name, make, [&](const nn::PatchClassifier& model) { return model(images); }, labels);
  }
}

TEST_CASE("gpu: the released Fastformer's encoder of bfloat16 pools to float32") {
  if (!has_gpu("Fastformer's encoder of bfloat16 on the GPU")) return;
  const Tensor x = noise({3, kTokens, kWidth}, 1), targets = ids({3}, kWidth, 2);
  Tensor padding_mask = ones({3, kTokens}, DType::boolean);
  for (int64_t i = 0; i < 2 * kTokens; ++i) padding_mask.mutable_data<bool>()[static_cast<size_t>(i)] = i % 5 != 3;
  padding_mask = padding_mask.to(Device::cuda);
  for (const bool released : {true, false}) {
    const auto make = [&](Generator& rng, DType dtype) {
      const nn::FastformerEncoderConfig config{.width = kWidth,
                                               .heads = 2,
                                               .hidden = 2 * kWidth,
                                               .max_tokens = kTokens,
                                               .dropout = 0,
                                               .eps = 1e-5,
                                               .released = released};
      return nn::FastformerEncoder(rng, config, dtype, Device::cuda);
    };
    compare(
        released ? "released" : "of the paper", make,
        [&](const nn::FastformerEncoder& model) { return model(x, padding_mask); }, targets);
  }
}

TEST_CASE("gpu: texts of bfloat16 models step by step, and their maps") {
  if (!has_gpu("generation by bfloat16 models on the GPU")) return;
  const NoGrad no_grad;
  const Tensor inputs = ids({kBatch, kTokens}, kVocabulary, 1);
  for (const Family& family : families()) {
    if (!nn::find_mechanism(family.attention.mechanism).step) continue;
    CAPTURE(family.name);
    Generator of_single(5), of_mixed(5);
    nn::DecoderLM single(of_single, decoder_config(family), DType::float32, Device::cuda);
    nn::DecoderLM mixed(of_mixed, decoder_config(family), DType::bfloat16, Device::cuda);
    level(single);
    level(mixed);
    single.eval();
    mixed.eval();
    nn::DecoderState state = mixed.start();
    std::vector<Tensor> steps;
    for (int64_t i = 0; i < kTokens; ++i) steps.push_back(mixed.step(state, inputs.select(1, i)));
    CHECK(steps.back().dtype() == DType::float32);
    CHECK(error_of(stack(steps, 1), mixed(inputs)) < kOutputs);
    CHECK(error_of(stack(steps, 1), single(inputs)) < kOutputs);

    const auto maps_of = [&](const nn::DecoderLM& model) {
      const nn::AttentionMaps maps;
      model(inputs);
      return maps.all();
    };
    const auto actual = maps_of(mixed), expected = maps_of(single);
    REQUIRE(actual.size() == expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      CAPTURE(actual[i].name);
      CHECK(actual[i].weights.dtype() == DType::float32);
      CHECK(error_of(actual[i].weights, expected[i].weights) < kOutputs);
    }
  }
}

TEST_CASE("gpu: sums over a long text are float32 in a bfloat16 model") {
  if (!has_gpu("long texts of bfloat16 models on the GPU")) return;
  const NoGrad no_grad;
  constexpr int64_t kLong = 600;  // equal tokens; bfloat16 can only count to 256
  const Tensor x = noise({1, kWidth}, 4).to(DType::bfloat16);
  for (const std::string& mechanism : nn::causal_mechanisms()) {
    if (!nn::find_mechanism(mechanism).step) continue;
    CAPTURE(mechanism);
    Generator rng(6);
    struct Model : nn::Module {
      Model(Generator& generator, const nn::AttentionConfig& config)
          : Module(generator, DType::bfloat16, Device::cuda),
            attention(nn::make_attention(*this, "attention", config)) {}
      std::unique_ptr<nn::Attention> attention;
    };
    const Model model(rng, {.mechanism = mechanism, .width = kWidth, .heads = 2, .causal = true});
    const auto state = model.attention->start();
    const Tensor first = model.attention->step(*state, x);
    CHECK(first.dtype() == DType::bfloat16);
    Tensor last;
    for (int64_t i = 1; i < kLong; ++i) last = model.attention->step(*state, x);
    CHECK(error_of(last, first) < 0.005);  // the mean of equal tokens is any of them
  }
}

TEST_CASE("gpu: a recorded step of a bfloat16 model gives the bits of one that is not") {
  if (!has_gpu("recorded steps of bfloat16 models on the GPU")) return;
  const auto losses = [](const Family& family, bool recorded) {
    Generator rng(7);
    nn::DecoderLM model(rng, decoder_config(family), DType::bfloat16, Device::cuda);
    nn::AdamW optimizer(model.parameters(), {.lr = 1e-2});
    const auto run = [&](const std::vector<Tensor>& batch) {
      const Tensor loss = cross_entropy(model(batch[0]), batch[1]);
      backward(loss);
      optimizer.step();
      optimizer.zero_grad();
      return std::vector{loss};
    };
    Recording recording(Device::cuda, &rng, run);
    std::vector<float> all;
    for (uint64_t i = 0; i < 5; ++i) {
      const std::vector<Tensor> batch{ids({kBatch, kTokens}, kVocabulary, i).to(Device::cpu),
                                      ids({kBatch, kTokens}, kVocabulary, i + 100).to(Device::cpu)};
      all.push_back((recorded ? recording(batch) : run({batch[0].to(Device::cuda), batch[1].to(Device::cuda)}))[0]
                        .item<float>());
    }
    return all;
  };
  for (const Family& family : {Family{"softmax", {.mechanism = "softmax"}, nn::Positions::rotary, 0.1},
                               Family{"fastmax2", {.mechanism = "fastmax2"}, nn::Positions::sinusoidal, 0.1},
                               Family{"fastformer", {.mechanism = "fastformer"}, nn::Positions::learned, 0.1}}) {
    CAPTURE(family.name);
    CHECK(losses(family, true) == losses(family, false));
  }
}

}  // namespace linnet::test
