/// Attention modules must compute the op of their mechanism, with their options, between their linear maps.

#include <doctest/doctest.h>

#include <bit>

#include <filesystem>
#include <functional>

#include <linnet/linnet.h>

#include "tests/nn/attention/attention_model.h"
#include "tests/ops/attention/attention_reference.h"

using namespace linnet;
using test::AttentionModel;
using test::keep_all_but;
using test::largest_difference;

namespace {

constexpr int64_t kBatch = 2, kHeads = 2, kWidth = 8, kHeadDim = kWidth / kHeads, kTokens = 24;
constexpr double kDropout = 0.3;

/// A call of a module, with everything that its formula needs.
struct ModuleCall {
  const AttentionModel& model;
  const nn::AttentionConfig& config;
  Tensor x, padding_mask;
  Generator* generator;  ///< the model's
  bool causal = config.causal;
  double dropout = model.training() ? config.dropout : 0;

  /// The tensors that are side by side in `projected`, divided into heads, after the short convolution if there is
  /// one.
  std::vector<Tensor> heads(const Tensor& projected) const {
    const ShortConvOptions options{.causal = causal, .padding_mask = padding_mask};
    const Tensor all =
        config.short_conv > 0 ? short_conv(projected, model.tensor_of("conv.weight"), options) : projected;
    return parts(all);
  }
  /// The same without a convolution.
  static std::vector<Tensor> parts(const Tensor& all) {
    std::vector<Tensor> each;
    for (int64_t i = 0; i < all.size(2); i += kWidth) {
      each.push_back(nn::split_heads(all.narrow(2, i, kWidth), kHeads));
    }
    return each;
  }
  /// f with the generator of a module that draws once in each call. In evaluation the generator starts from its seed.
  Tensor drawn(const std::function<Tensor(Generator& draws)>& f) const {
    Generator of_seed(static_cast<uint64_t>(model.tensor_of("seed").item<int64_t>()));
    return f(model.training() ? *generator : of_seed);
  }
  Tensor out(const Tensor& of_heads) const { return model.apply("out", nn::merge_heads(of_heads)); }
};

using Formula = std::function<Tensor(const ModuleCall& call)>;

/// The step form of x [B, N, C].
Tensor steps(const nn::Attention& attention, const Tensor& x) {
  const std::unique_ptr<nn::AttentionState> state = attention.start();
  std::vector<Tensor> results;
  for (int64_t t = 0; t < x.size(1); ++t) results.push_back(attention.step(*state, x.select(1, t)));
  return stack(results, 1);
}

/// Compares a module that has random parameters with its formula: causal or not, with and without a short
/// convolution, padding and dropout. Its step form, if it has one, must give the same.
void check_module(const std::string& mechanism, const std::any& options, const Formula& formula,
                  double dropout = kDropout) {
  const nn::Mechanism& description = nn::find_mechanism(mechanism);
  const Tensor some_padding = keep_all_but(kBatch, kTokens, {{0, 0}, {0, 7}, {1, 22}, {1, 23}});
  for (const bool causal : {false, true}) {
    if (causal && !description.causal) continue;
    for (const int64_t short_conv : {0, 3}) {
      const nn::AttentionConfig config{.mechanism = mechanism,
                                       .width = kWidth,
                                       .heads = kHeads,
                                       .causal = causal,
                                       .dropout = dropout,
                                       .short_conv = short_conv,
                                       .options = options};
      Generator rng(3);
      AttentionModel model(rng, config);
      model.draw_parameters(rng);
      const NoGrad no_grad;
      const Tensor x = randn({kBatch, kTokens, kWidth}, rng, DType::float64);
      for (const bool training : {false, true}) {
        for (const Tensor& padding_mask : {Tensor(), some_padding}) {
          CAPTURE(mechanism);
          CAPTURE(causal);
          CAPTURE(short_conv);
          CAPTURE(training);
          CAPTURE(padding_mask.defined());
          model.train(training);
          const Generator::State before = rng.state();
          const Tensor y = (*model.attention)(x, padding_mask);
          rng.set_state(before);
          CHECK(largest_difference(y, formula({model, config, x, padding_mask, &rng})) < 1e-13);
        }
      }
      model.eval();
      if (causal && description.step) {
        CHECK(largest_difference(steps(*model.attention, x), (*model.attention)(x)) < 1e-12);
      }
    }
  }
}

}  // namespace

TEST_CASE("linear: the module is linear_attention of its maps") {
  check_module("linear", {}, [](const ModuleCall& c) {
    const std::vector<Tensor> in = c.heads(c.model.apply("qkv", c.x));
    return c.out(linear_attention(
        in[0], in[1], in[2],
        {.causal = c.causal, .padding_mask = c.padding_mask, .dropout = c.dropout, .generator = c.generator}));
  });
}

TEST_CASE("performer: the module is performer_attention of its maps, with its features") {
  check_module("performer", nn::PerformerConfig{.features = 7}, [](const ModuleCall& c) {
    const std::vector<Tensor> in = c.heads(c.model.apply("qkv", c.x));
    return c.out(performer_attention(
        in[0], in[1], in[2], c.model.tensor_of("omega"),
        {.causal = c.causal, .padding_mask = c.padding_mask, .dropout = c.dropout, .generator = c.generator}));
  });
}

TEST_CASE("linformer: the module is linformer_attention of its maps, with keys by `e` and values by `f`") {
  for (const nn::LinformerShare share : {nn::LinformerShare::headwise, nn::LinformerShare::key_value}) {
    check_module("linformer", nn::LinformerConfig{.rank = 5, .share = share}, [&](const ModuleCall& c) {
      const std::vector<Tensor> in = c.heads(c.model.apply("qkv", c.x));
      const Tensor e = c.model.tensor_of("e");
      const Tensor f = share == nn::LinformerShare::headwise ? c.model.tensor_of("f") : e;
      return c.out(
          linformer_attention(in[0], in[1], in[2], e, f,
                              {.padding_mask = c.padding_mask, .dropout = c.dropout, .generator = c.generator}));
    });
  }
}

TEST_CASE("informer: the module is informer_attention of its maps, for the queries that its options say") {
  for (const nn::InformerConfig& options : {nn::InformerConfig{.factor = 2}, {.queries = 3}}) {
    check_module("informer", options, [&](const ModuleCall& c) {
      const std::vector<Tensor> in = c.heads(c.model.apply("qkv", c.x));
      return c.drawn([&](Generator& draws) {
        return c.out(informer_attention(in[0], in[1], in[2],
                                        {.factor = options.factor,
                                         .queries = options.queries,
                                         .padding_mask = c.padding_mask,
                                         .dropout = c.dropout,
                                         .generator = &draws}));
      });
    });
  }
}

TEST_CASE("bigbird: the module is bigbird_attention of its maps, with the random blocks of its seed") {
  for (const nn::BigBirdConfig& options : {nn::BigBirdConfig{.block = 1, .random_blocks = 1}, {2, 2}, {3, 0}}) {
    check_module("bigbird", options, [&](const ModuleCall& c) {
      const std::vector<Tensor> in = c.heads(c.model.apply("qkv", c.x));
      const auto seed = static_cast<uint64_t>(c.model.tensor_of("seed").item<int64_t>());
      const Tensor random_blocks =
          bigbird_random_blocks(kTokens, options.block, options.random_blocks, kHeads, {seed, 0});
      return c.out(bigbird_attention(in[0], in[1], in[2],
                                     {.block = options.block,
                                      .random_blocks = random_blocks,
                                      .padding_mask = c.padding_mask,
                                      .dropout = c.dropout,
                                      .generator = c.generator}));
    });
  }
}

TEST_CASE("longformer: the module is longformer_attention of its maps, with maps of their own for global rows") {
  for (const int64_t globals : {0, 2}) {
    check_module("longformer", nn::LongformerConfig{.window = 4, .dilation = {1, 3}, .global_tokens = globals},
                 [&](const ModuleCall& c) {
                   const std::vector<Tensor> in = c.heads(c.model.apply("qkv", c.x));
                   const std::vector<Tensor> of_globals = ModuleCall::parts(c.model.apply("qkv_global", c.x));
                   return c.out(longformer_attention(in[0], in[1], in[2], of_globals[0].narrow(2, 0, globals),
                                                     of_globals[1], of_globals[2],
                                                     {.window = 4,
                                                      .dilation = {1, 3},
                                                      .global_tokens = globals,
                                                      .causal = c.causal,
                                                      .padding_mask = c.padding_mask,
                                                      .dropout = c.dropout,
                                                      .generator = c.generator}));
                 });
  }
}

TEST_CASE("longformer: the module with its weights gives what Hugging Face's layer gives") {
  const TensorMap file =
      read_safetensors(std::filesystem::path(LINNET_TEST_DATA) / "goldens/mechanisms/longformer.safetensors").tensors;
  const auto joined = [&](const std::string& suffix) {
    return concat({file.at("query" + suffix), file.at("key" + suffix), file.at("value" + suffix)}, 0);
  };
  Generator rng(1);
  AttentionModel model(rng, {.mechanism = "longformer",
                             .width = 16,
                             .heads = 2,
                             .options = nn::LongformerConfig{.window = 8, .global_tokens = 1}});
  model.load_state({{"attention.qkv.weight", joined(".weight")},
                    {"attention.qkv.bias", joined(".bias")},
                    {"attention.qkv_global.weight", joined("_global.weight")},
                    {"attention.qkv_global.bias", joined("_global.bias")},
                    {"attention.out.weight", eye(16, 16, DType::float64)},
                    {"attention.out.bias", zeros({16}, DType::float64)}});
  // The second sequence has only its first token as a global token. The first sequence has one more.
  const auto second = [&](const char* name) { return file.at(name).narrow(0, 1, 1); };
  const Tensor padding_mask = second("test.keep"), kept = padding_mask.unsqueeze(-1).to(DType::float64);
  const Tensor y = (*model.attention)(second("test.input"), padding_mask);
  CHECK(largest_difference(y * kept, second("test.output") * kept) < 1e-6);
}

TEST_CASE("poolingformer: the module adds attention in a window and that from its result to pools of it") {
  using Kind = TokenPooling::Kind;
  for (const Kind kind : {Kind::mean, Kind::max, Kind::convolution}) {
    CAPTURE(static_cast<int>(kind));
    const nn::PoolingformerConfig options{.window = 4, .window2 = 10, .pooling = kind, .kernel = 3, .stride = 2};
    check_module("poolingformer", options, [&](const ModuleCall& c) {
      const std::vector<Tensor> first = c.heads(c.model.apply("qkv", c.x));
      const Tensor y = nn::merge_heads(longformer_attention(first[0], first[1], first[2], {}, {}, {},
                                                            {.window = 4,
                                                             .global_tokens = 0,
                                                             .causal = c.causal,
                                                             .padding_mask = c.padding_mask,
                                                             .dropout = c.dropout,
                                                             .generator = c.generator}));
      const std::vector<Tensor> second = ModuleCall::parts(c.model.apply("qkv2", y));
      const auto pooling = [&](const char* weight) {
        return TokenPooling{.kind = kind,
                            .kernel = 3,
                            .stride = 2,
                            .weight = kind == Kind::convolution ? c.model.tensor_of(weight) : Tensor()};
      };
      const Tensor z = nn::merge_heads(pooled_attention(second[0], second[1], second[2],
                                                        {.keys = pooling("pool_k"),
                                                         .values = pooling("pool_v"),
                                                         .window = 10,
                                                         .causal = c.causal,
                                                         .padding_mask = c.padding_mask,
                                                         .dropout = c.dropout,
                                                         .generator = c.generator}));
      return c.model.apply("out", y + z);
    });
  }
}

TEST_CASE("reformer: the module is lsh_attention of its maps, with buckets by the rotations that it draws") {
  for (const nn::ReformerConfig& options : {nn::ReformerConfig{.hashes = 3, .chunk = 4},
                                            {.hashes = 2, .chunk = 6, .scale = 0.3},
                                            {.hashes = 2, .chunk = 4, .released = true}}) {
    CAPTURE(options.scale);
    CAPTURE(options.released);
    const int64_t below = int64_t{1} << (std::bit_width(static_cast<uint64_t>(2 * (kTokens / options.chunk))) - 1);
    const int64_t buckets = options.released ? below : lsh_bucket_count(kTokens, options.chunk);
    const auto formula = [&](const ModuleCall& c) {
      const std::vector<Tensor> in = c.heads(concat({c.model.apply("qk", c.x), c.model.apply("v", c.x)}, 2));
      const Tensor rotations = c.drawn([&](Generator& draws) {
        return lsh_rotations(kHeads, kHeadDim, options.hashes, buckets, draws, DType::float64);
      });
      return c.out(lsh_attention(in[0], in[1], lsh_buckets(in[0], rotations),
                                 {.chunk = options.chunk,
                                  .causal = c.causal,
                                  .scale = options.scale,
                                  .padding_mask = c.padding_mask,
                                  .dropout = c.dropout,
                                  .generator = c.generator,
                                  .released = options.released}));
    };
    check_module("reformer", options, formula, options.released ? 0 : kDropout);
  }
}
