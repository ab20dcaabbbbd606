#include <linnet/nn/models/generate.h>

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/nn/attention/mechanism.h>
#include <linnet/nn/models/evaluation.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/array/sorting.h>
#include <linnet/ops/layers/softmax.h>

namespace linnet::nn {
namespace {

/// Draws the next token from logits [1, V].
int64_t draw(Tensor logits, const GenerateOptions& options, Generator& rng) {
  if (options.temperature == 0) return argmax(logits, -1).item<int64_t>();
  logits = logits / options.temperature;
  Tensor ids;  // of the candidates; undefined if they are all tokens
  if (options.top_k > 0 && options.top_k < logits.size(-1)) {
    ValuesAndIndices best = topk(logits, options.top_k);
    logits = std::move(best.values);
    ids = std::move(best.indices);
  }
  Tensor probabilities = softmax(logits);
  if (options.top_p < 1) {
    const auto [sorted, order] = sort(probabilities, -1, true);
    const Tensor more_likely = cumsum(sorted, -1) - sorted;
    probabilities = masked_fill(sorted, ge(more_likely, options.top_p), 0);
    ids = ids.defined() ? gather(ids, -1, order) : order;
  }
  const Tensor choice = multinomial(probabilities, 1, rng);
  return (ids.defined() ? gather(ids, -1, choice) : choice).item<int64_t>();
}

/// Evaluates a model on a text that grows by one token at a time.
class TextReader {
 public:
  explicit TextReader(const DecoderLM& model)
      : model_(model), has_step_(mechanism_of(model.config().block.attention).step) {
    const int64_t context = model.config().context;
    if (model.config().positions == Positions::learned || (!has_step_ && context > 0)) {
      most_ = static_cast<size_t>(context);
    }
  }

  /// The logits [1, V] of the token after `text`. The first call takes the prompt, and each later one the same text
  /// with one more token.
  Tensor read(std::span<const int64_t> text) {
    if (!has_step_) {
      const Tensor logits = model_(on_device(text.last(std::min(text.size(), most_))).unsqueeze(0));
      return logits.select(1, logits.size(1) - 1);
    }
    size_t fresh = 1;  // tokens at the end of the text that are not in the state
    if (state_.layers.empty()) {
      fresh = std::min(text.size(), most_);
    } else if (static_cast<size_t>(state_.tokens) == most_) {
      fresh = std::max<size_t>(most_ / 2, 1);  // all learned positions are used, so the older half is dropped
      state_ = {};
    }
    if (state_.layers.empty()) state_ = model_.start();
    Tensor logits;
    for (const int64_t id : text.last(fresh)) logits = model_.step(state_, on_device({&id, 1}));
    return logits;
  }

 private:
  Tensor on_device(std::span<const int64_t> ids) const {
    return tensor(std::vector<int64_t>(ids.begin(), ids.end())).to(model_.device());
  }

  const DecoderLM& model_;
  bool has_step_;
  size_t most_ = std::numeric_limits<size_t>::max();  ///< tokens that the model sees at once
  DecoderState state_;
};

}  // namespace

std::vector<int64_t> generate(DecoderLM& model, std::span<const int64_t> prompt, Generator& rng,
                              const GenerateOptions& options, const std::function<void(int64_t id)>& on_token,
                              Where where) {
  const Call call("generate", where);
  if (prompt.empty()) throw ValueError("the prompt is empty; give at least one token");
  if (options.max_new_tokens < 0 || options.top_k < 0 || !(options.temperature >= 0)) {
    throw ValueError(fmt::format("max_new_tokens {}, temperature {} and top_k {} must be 0 or more",
                                 options.max_new_tokens, options.temperature, options.top_k));
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    throw ValueError(fmt::format("top_p {} must be above 0, and at most 1", options.top_p));
  }
  const int64_t vocabulary = model.config().vocabulary;
  if (options.eos_token_id && (*options.eos_token_id < 0 || *options.eos_token_id >= vocabulary)) {
    throw ValueError(fmt::format("eos_token_id is {}; ids run from 0 to {}", *options.eos_token_id, vocabulary - 1));
  }
  const NoGrad no_grad;
  const Evaluation evaluation(model);
  TextReader reader(model);
  std::vector<int64_t> text(prompt.begin(), prompt.end());
  for (int64_t i = 0; i < options.max_new_tokens; ++i) {
    text.push_back(draw(reader.read(text), options, rng));
    if (on_token) on_token(text.back());
    if (text.back() == options.eos_token_id) break;
  }
  return {text.begin() + std::ssize(prompt), text.end()};
}

}  // namespace linnet::nn
