#include <linnet/nn/models/generate.h>

#include <algorithm>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
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
  if (options.top_k == 0 || options.top_k >= logits.size(-1)) {
    return multinomial(softmax(logits), 1, rng).item<int64_t>();
  }
  const ValuesAndIndices best = topk(logits, options.top_k);
  const Tensor choice = multinomial(softmax(best.values), 1, rng);
  return gather(best.indices, -1, choice).item<int64_t>();
}

/// Feeds a text to a model, token by token.
class TokenReader {
 public:
  explicit TokenReader(const DecoderLM& model) : model_(model), state_(model.start()) {}

  void feed(std::span<const int64_t> ids) {
    for (const int64_t id : ids) logits_ = model_.step(state_, tensor<int64_t>({id}).to(model_.device()));
  }
  /// Feeds the last token. When learned positions have ended, it starts again and feeds the second half of the
  /// context.
  void feed_last(std::span<const int64_t> text) {
    const int64_t context = model_.config().context;
    if (!is_bounded() || state_.tokens < context) return feed(text.last(1));
    state_ = model_.start();
    feed(text.last(static_cast<size_t>(std::max<int64_t>(context / 2, 1))));
  }
  bool is_bounded() const { return model_.config().positions == Positions::learned; }
  const Tensor& logits() const { return logits_; }

 private:
  const DecoderLM& model_;
  DecoderState state_;
  Tensor logits_;
};

/// A guard: while it lives, the model is in evaluation mode.
class Evaluation {
 public:
  explicit Evaluation(Module& model) : model_(model), was_training_(model.training()) { model.eval(); }
  ~Evaluation() { model_.train(was_training_); }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

 private:
  Module& model_;
  bool was_training_;
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
  const NoGrad no_grad;
  const Evaluation evaluation(model);
  TokenReader reader(model);
  const auto context = static_cast<size_t>(std::max<int64_t>(model.config().context, 1));
  reader.feed(reader.is_bounded() ? prompt.last(std::min(prompt.size(), context)) : prompt);

  std::vector<int64_t> text(prompt.begin(), prompt.end());
  for (int64_t i = 0; i < options.max_new_tokens; ++i) {
    text.push_back(draw(reader.logits(), options, rng));
    if (on_token) on_token(text.back());
    if (i + 1 < options.max_new_tokens) reader.feed_last(text);
  }
  return {text.begin() + std::ssize(prompt), text.end()};
}

}  // namespace linnet::nn
