/// How generate draws tokens.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include <linnet/linnet.h>

using namespace linnet;

TEST_CASE("generate: tokens follow softmax(logits/temperature), of all of them or of the top_k") {
  constexpr int64_t kVocabulary = 7;
  const std::vector<int64_t> prompt{1};
  Generator rng(3);
  nn::DecoderLM model(rng,
                      {.vocabulary = kVocabulary, .context = 8, .block = {.attention = {.width = 8, .heads = 2}}});
  const NoGrad no_grad;
  for (const Tensor& parameter : model.parameters()) {
    parameter.detach().copy_(randn(parameter.shape(), rng, parameter.dtype()));
  }
  const auto counts = [&](double temperature, int64_t top_k, int draws) {
    std::vector<int> of_token(kVocabulary);
    for (int i = 0; i < draws; ++i) {
      ++of_token[static_cast<size_t>(
          nn::generate(model, prompt, rng, {.max_new_tokens = 1, .temperature = temperature, .top_k = top_k})[0])];
    }
    return of_token;
  };
  const Tensor logits = model(tensor(prompt).unsqueeze(0))[{0, -1}];
  CHECK(counts(0.05, 0, 200)[static_cast<size_t>(argmax(logits, 0).item<int64_t>())] >= 198);

  for (const int64_t top_k : {int64_t{0}, int64_t{3}}) {
    CAPTURE(top_k);
    const int64_t candidates = top_k == 0 ? kVocabulary : top_k;
    const ValuesAndIndices best = topk(logits, candidates);
    const std::vector<double> likely = softmax(best.values / 2, 0).to_vector<double>();
    const std::vector<int64_t> ids = best.indices.to_vector<int64_t>();
    std::vector<double> probabilities(kVocabulary);  // 0 for tokens that are not among the best
    for (size_t i = 0; i < ids.size(); ++i) probabilities[static_cast<size_t>(ids[i])] = likely[i];
    const int draws = 1000;
    const std::vector<int> drawn = counts(2, top_k, draws);
    for (size_t i = 0; i < drawn.size(); ++i) {
      const double p = probabilities[i];
      CHECK(std::abs(drawn[i] - draws * p) <= 5 * std::sqrt(draws * p * (1 - p)));
    }
  }
}
