/// Adds an attention of your own to those of linnet. Once it is registered, every program that links it has flags for
/// it, a row in tables and a curve in pictures:
///
///     build/bin/own_attention --attention decay --decay 80 --steps 300 --out out/decay       # as train_text
///     build/bin/own_attention compare --attention softmax,decay --steps 300 --out out/own    # as compare
///
/// The output of token i is a weighted mean of the values up to its own, Σ_j γ^(i − j) v_j / Σ_j γ^(i − j) for j ≤ i.
/// Both sums are running sums. Padding masks are ignored, because text models have no padding.

#include <optional>
#include <string_view>

#include <linnet/linnet.h>

#include "support/run/compare.h"
#include "support/run/train_program.h"

using namespace linnet;

namespace {

/// The options of this attention.
struct DecayConfig {
  int64_t percent = 90;  ///< γ, in per cent
};

class DecayAttention : public nn::Attention {
 public:
  DecayAttention(nn::Module& parent, std::string name, const nn::AttentionConfig& config)
      : Attention(parent, std::move(name), config),
        gamma_(static_cast<double>(nn::options_of<DecayConfig>(config).percent) / 100) {}

  /// Writes γ to model files, so that weights trained with another γ are refused.
  std::vector<nn::Setting> settings() const override {
    std::vector<nn::Setting> all = Attention::settings();
    all.push_back({"decay", gamma_});
    return all;
  }

 private:
  struct Sums : nn::AttentionState {
    Tensor values, weights;
  };

  /// The weights [N, N]: row i holds γ^|i − j| over its sum; when causal, 0 for j > i.
  Tensor weights(int64_t tokens) const {
    const Tensor place = arange(tokens).to(dtype()).to(device());
    const Tensor powers = pow(gamma_, abs(place.unsqueeze(1) - place));
    const Tensor seen = config().causal ? tril(powers) : powers;
    return seen / sum(seen, {1}, true);
  }
  Tensor forward(const Tensor& x, const Tensor&) const override {
    return out_(matmul(weights(x.size(1)), value_(x)));
  }
  std::vector<nn::AttentionMap> forward_maps(const Tensor& x, const Tensor&) const override {
    return {{"", weights(x.size(1)).reshape({1, 1, x.size(1), x.size(1)})}};
  }
  std::unique_ptr<nn::AttentionState> start_state() const override { return std::make_unique<Sums>(); }
  Tensor forward_step(nn::AttentionState& state, const Tensor& x) const override {
    auto& sums = dynamic_cast<Sums&>(state);
    const Tensor v = value_(x), one = ones({1}, dtype(), device());
    sums.values = sums.values.defined() ? gamma_ * sums.values + v : v;
    sums.weights = sums.weights.defined() ? gamma_ * sums.weights + one : one;
    return out_(sums.values / sums.weights);
  }

  double gamma_;
  nn::Linear value_{*this, "value", config().width, config().width, config().bias};
  nn::Linear out_{*this, "out", config().width, config().width, config().bias};
};

/// The programs refuse a flag with the reason that this returns. Otherwise the flag would do nothing.
std::optional<nn::OptionRefusal> decay_refusal(const nn::AttentionConfig& config) {
  if (config.dropout > 0) return nn::OptionRefusal{"attention_dropout", "which has no dropout; leave it out"};
  if (config.short_conv > 0) return nn::OptionRefusal{"short_conv", "which has no convolution; leave it out"};
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  nn::Mechanism decay{.name = "decay", .paper = "none", .make = nn::maker<DecayAttention>()};
  decay.options = DecayConfig{};
  decay.option_list = {
      nn::integer_option("decay", "of decay, in per cent a token (default: 90)", &DecayConfig::percent, 1, 100)};
  decay.refusal = decay_refusal;
  nn::register_mechanism(decay);
  if (argc > 1 && std::string_view(argv[1]) == "compare") {
    return examples::compare_program(argc - 1, argv + 1,
                                     {.name = "own_attention compare", .start = {argv[0], argv[1]}});
  }
  return examples::train_program(
      argc, argv,
      {.name = "own_attention",
       .tasks = {"shakespeare"},
       .description = "Trains a text model, with an attention of its own among the mechanisms."});
}
