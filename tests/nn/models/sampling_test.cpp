/// How generate draws tokens.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include <linnet/linnet.h>

using namespace linnet;

TEST_CASE("generate: tokens follow softmax(logits/temperature), of all of them, of the top_k or up to the top_p") {
  constexpr int64_t kVocabulary = 7;
  const std::vector<int64_t> prompt{1};
  Generator rng(3);
  nn::DecoderLM model(rng,
                      {.vocabulary = kVocabulary, .context = 8, .block = {.attention = {.width = 8, .heads = 2}}});
  const NoGrad no_grad;
  for (const Tensor& parameter : model.parameters()) {
    parameter.detach().copy_(randn(parameter.shape(), rng, parameter.dtype()));
  }
  const auto counts = [&](double temperature, int64_t top_k, double top_p, int draws) {
    std::vector<int> of_token(kVocabulary);
    for (int i = 0; i < draws; ++i) {
      const nn::GenerateOptions options{
          .max_new_tokens = 1, .temperature = temperature, .top_k = top_k, .top_p = top_p};
      ++of_token[static_cast<size_t>(nn::generate(model, prompt, rng, options)[0])];
    }
    return of_token;
  };
  const Tensor logits = model(tensor(prompt).unsqueeze(0))[{0, -1}];
  CHECK(counts(0.05, 0, 1, 200)[static_cast<size_t>(argmax(logits, 0).item<int64_t>())] >= 198);

  for (const auto& [top_k, top_p] : {std::pair<int64_t, double>{0, 1}, {3, 1}, {0, 0.7}, {0, 1e-9}, {4, 0.7}}) {
    CAPTURE(top_k);
    CAPTURE(top_p);
    const ValuesAndIndices best = topk(logits, top_k == 0 ? kVocabulary : top_k);
    std::vector<double> likely = softmax(best.values / 2, 0).to_vector<double>();  // the likeliest first
    size_t candidates = 0;
    double all = 0;
    while (candidates < likely.size() && all < top_p) all += likely[candidates++];
    const std::vector<int64_t> ids = best.indices.to_vector<int64_t>();
    std::vector<double> probabilities(kVocabulary);  // 0 for tokens that are not drawn
    for (size_t i = 0; i < candidates; ++i) probabilities[static_cast<size_t>(ids[i])] = likely[i] / all;
    const int draws = 1000;
    const std::vector<int> drawn = counts(2, top_k, top_p, draws);
    for (size_t i = 0; i < drawn.size(); ++i) {
      const double p = std::min(probabilities[i], 1.0);
      CHECK(std::abs(drawn[i] - draws * p) <= 5 * std::sqrt(draws * p * (1 - p)) + 1e-6);
    }
  }
}

TEST_CASE("generate: refuses a top_p out of range") {
  Generator rng(3);
  nn::DecoderLM model(rng, {.vocabulary = 3, .context = 8, .block = {.attention = {.width = 8, .heads = 2}}});
  for (const double top_p : {0.0, -1.0, 1.1, std::nan("")}) {
    CHECK_THROWS_WITH_AS(nn::generate(model, std::vector<int64_t>{1}, rng, {.top_p = top_p}),
                         doctest::Contains("must be above 0, and at most 1"), ValueError);
  }
}
