#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include <linnet/linnet.h>

#include "tests/support/near.h"

using namespace linnet;

namespace {

using Ids = std::vector<int64_t>;

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

/// A model without weights. Its logits are a random function of the source and all earlier tokens.
struct ToyModel {
  int64_t vocabulary = 5;
  uint64_t seed = 1;
  int64_t levels = 0;  ///< logits are integers below this, so that few levels give ties; 0: any numbers

  std::vector<double> log_probs(int64_t source, const Ids& before) const {
    uint64_t key = seed * 1000 + static_cast<uint64_t>(source);
    for (const int64_t id : before) key = key * 31 + static_cast<uint64_t>(id) + 1;
    Generator rng(key);
    const Tensor logits = levels == 0 ? randn({vocabulary}, rng, DType::float64) * 2
                                      : randint(0, levels, {vocabulary}, rng).to(DType::float64);
    return log_softmax(logits).to_vector<double>();
  }
};

/// The model's state. Each row has a source and its target so far.
class ToyScorer {
 public:
  ToyScorer(ToyModel model, Ids sources) : model_(model), sources_(std::move(sources)), texts_(sources_.size()) {}

  nn::BeamScorer scorer() {
    return {[this](const Tensor& ids) { return step(ids.to_vector<int64_t>()); },
            [this](const Tensor& selected, const Tensor& sources) {
              select(selected.to_vector<int64_t>(), sources.defined() ? sources.to_vector<int64_t>() : Ids{});
            }};
  }
  size_t steps = 0, rows = 0;  ///< numbers of requested steps and rows

 private:
  Tensor step(const Ids& ids) {
    REQUIRE(ids.size() == texts_.size());
    std::vector<double> all;
    for (size_t i = 0; i < ids.size(); ++i) {
      texts_[i].push_back(ids[i]);
      const int64_t source = sources_[i * sources_.size() / ids.size()];
      for (const double x : model_.log_probs(source, Ids(texts_[i].begin() + 1, texts_[i].end()))) all.push_back(x);
    }
    ++steps;
    rows += ids.size();
    return tensor(all).reshape({std::ssize(ids), model_.vocabulary});
  }
  void select(const Ids& selected, const Ids& sources) {
    std::vector<Ids> texts;
    for (const int64_t row : selected) texts.push_back(texts_[static_cast<size_t>(row)]);
    texts_ = texts;
    if (sources.empty()) return;
    Ids kept;
    for (const int64_t source : sources) kept.push_back(sources_[static_cast<size_t>(source)]);
    sources_ = kept;
  }

  ToyModel model_;
  Ids sources_;
  std::vector<Ids> texts_;
};

std::vector<nn::BeamHypothesis> search(const ToyModel& model, const Ids& sources,
                                       const nn::BeamSearchOptions& options) {
  return nn::beam_search(ToyScorer(model, sources).scorer(), std::ssize(sources), options);
}

bool has_run_before(const Ids& ids, int64_t id, int64_t size) {
  Ids text = ids;
  text.push_back(id);
  if (size < 1 || std::ssize(text) < size) return false;
  const Ids last(text.end() - size, text.end());
  return std::search(text.begin(), text.end() - 1, last.begin(), last.end()) != text.end() - 1;
}

bool allowed(const nn::BeamSearchOptions& o, const Ids& ids, int64_t id) {
  return id != o.bos_token_id && std::ranges::find(o.suppress_tokens, id) == o.suppress_tokens.end() &&
         !(id == o.eos_token_id && std::ssize(ids) + 1 < o.min_length) &&
         !has_run_before(ids, id, o.no_repeat_ngram_size);
}

double score_of(const nn::BeamSearchOptions& o, double sum, int64_t length) {
  return sum / std::pow((5.0 + static_cast<double>(length)) / 6.0, o.length_penalty);
}

/// The rules of beam search, written plainly and slowly.
nn::BeamHypothesis slow_search(const ToyModel& model, int64_t source, const nn::BeamSearchOptions& o) {
  struct Open {
    Ids ids;
    double sum;
  };
  struct Extension {
    double sum;
    size_t beam;
    int64_t id;
  };
  std::vector<Open> open{{{}, 0}};
  std::vector<nn::BeamHypothesis> closed;
  for (int64_t length = 1; length <= o.max_length && !open.empty(); ++length) {
    std::vector<Extension> all;
    for (size_t beam = 0; beam < open.size(); ++beam) {
      const std::vector<double> log_probs = model.log_probs(source, open[beam].ids);
      for (int64_t id = 0; id < model.vocabulary; ++id) {
        if (!allowed(o, open[beam].ids, id)) continue;
        all.push_back({open[beam].sum + log_probs[static_cast<size_t>(id)], beam, id});
      }
    }
    std::ranges::stable_sort(all, std::ranges::greater{}, &Extension::sum);  // they are sorted by beam and id
    if (std::ssize(all) > 2 * o.num_beams) all.resize(static_cast<size_t>(2 * o.num_beams));
    std::vector<Open> next;
    for (size_t place = 0; place < all.size(); ++place) {
      const auto [sum, beam, id] = all[place];
      Ids ids = open[beam].ids;
      if (id == o.eos_token_id) {
        if (std::cmp_less(place, o.num_beams)) closed.push_back({ids, score_of(o, sum, length)});
      } else if (std::ssize(next) < o.num_beams) {
        ids.push_back(id);
        next.push_back({ids, sum});
      }
    }
    open = next;
    std::ranges::stable_sort(closed, std::ranges::greater{}, &nn::BeamHypothesis::score);
    if (length < o.max_length && std::ssize(closed) >= o.num_beams && !open.empty() &&
        score_of(o, open[0].sum, o.max_length) <= closed[static_cast<size_t>(o.num_beams - 1)].score) {
      return closed[0];
    }
  }
  for (const Open& beam : open) closed.push_back({beam.ids, score_of(o, beam.sum, o.max_length)});
  std::ranges::stable_sort(closed, std::ranges::greater{}, &nn::BeamHypothesis::score);
  return closed.at(0);
}

/// The best of all possible hypotheses.
nn::BeamHypothesis best_of_all(const ToyModel& model, int64_t source, const nn::BeamSearchOptions& o, const Ids& ids,
                               double sum) {
  nn::BeamHypothesis best{ids, std::ssize(ids) == o.max_length ? score_of(o, sum, o.max_length) : kImpossible};
  if (std::ssize(ids) == o.max_length) return best;
  const std::vector<double> log_probs = model.log_probs(source, ids);
  for (int64_t id = 0; id < model.vocabulary; ++id) {
    if (!allowed(o, ids, id)) continue;
    const double with_id = sum + log_probs[static_cast<size_t>(id)];
    Ids longer = ids;
    longer.push_back(id);
    const nn::BeamHypothesis found = id == o.eos_token_id
                                         ? nn::BeamHypothesis{ids, score_of(o, with_id, std::ssize(longer))}
                                         : best_of_all(model, source, o, longer, with_id);
    if (found.score > best.score) best = found;
  }
  return best;
}

void check_same(const nn::BeamHypothesis& found, const nn::BeamHypothesis& expected) {
  CHECK(found.ids == expected.ids);
  CHECK(std::abs(found.score - expected.score) < 1e-12);
}

std::unique_ptr<nn::EncoderDecoder> small_writer(const std::string& mechanism) {
  Generator rng(3);
  const nn::EncoderDecoderConfig config{.vocabulary = 9,
                                        .source_tokens = 12,
                                        .target_tokens = 10,
                                        .encoder_layers = 1,
                                        .decoder_layers = 2,
                                        .block = {.attention = {.width = 8, .heads = 2}, .dropout = 0.5},
                                        .decoder = {.mechanism = mechanism},
                                        .cross = {.mechanism = mechanism == "reformer" ? "softmax" : mechanism}};
  auto model = std::make_unique<nn::EncoderDecoder>(rng, config);
  for (auto& [name, parameter] : model->named_parameters()) {
    if (parameter.rank() > 1) nn::init::normal_(parameter, rng, 0, 0.6);  // so that targets differ
  }
  return model;
}

}  // namespace

TEST_CASE("beam search follows the rules") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Generator rng(seed);
    const auto from = [&](int64_t least, int64_t most) { return randint(least, most + 1, {1}, rng).item<int64_t>(); };
    const ToyModel model{.vocabulary = from(4, 80), .seed = seed, .levels = from(0, 1) * 3};
    nn::BeamSearchOptions options{.num_beams = from(1, 6),
                                  .length_penalty = static_cast<double>(from(0, 4)) / 2,
                                  .min_length = from(0, 4),
                                  .max_length = from(4, 9),
                                  .no_repeat_ngram_size = from(0, 3),
                                  .bos_token_id = 2,
                                  .eos_token_id = 1};
    if (from(0, 1) == 1) options.suppress_tokens = {0};
    if (options.no_repeat_ngram_size == 1 && model.vocabulary < 20) options.no_repeat_ngram_size = 2;
    const std::vector<nn::BeamHypothesis> found = search(model, {0, 1, 2, 3}, options);
    REQUIRE(found.size() == 4);
    for (int64_t source = 0; source < 4; ++source) {
      check_same(found[static_cast<size_t>(source)], slow_search(model, source, options));
    }
  }
}

TEST_CASE("beam search of one beam without a length penalty is greedy") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const ToyModel model{.seed = seed};
    const nn::BeamSearchOptions options{
        .num_beams = 1, .length_penalty = 0, .max_length = 12, .no_repeat_ngram_size = 0};
    Ids greedy;
    double sum = 0;
    while (std::ssize(greedy) < options.max_length) {
      std::vector<double> log_probs = model.log_probs(0, greedy);
      log_probs[0] = kImpossible;  // the start token
      const auto best = std::ranges::max_element(log_probs);
      sum += *best;
      if (best - log_probs.begin() == options.eos_token_id) break;
      greedy.push_back(best - log_probs.begin());
    }
    check_same(search(model, {0}, options)[0], {greedy, sum});
  }
}

TEST_CASE("beam search with as many beams as there are texts finds the best of all") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const ToyModel model{.vocabulary = 4, .seed = seed};
    for (const double penalty : {0.0, 0.6, 2.0}) {
      const nn::BeamSearchOptions options{.num_beams = 4 * 4 * 4 * 4,
                                          .length_penalty = penalty,
                                          .min_length = static_cast<int64_t>(seed % 3),
                                          .max_length = 4,
                                          .no_repeat_ngram_size = 2};
      const std::vector<nn::BeamHypothesis> found = search(model, {0, 7}, options);
      check_same(found[0], best_of_all(model, 0, options, {}, 0));
      check_same(found[1], best_of_all(model, 7, options, {}, 0));
    }
  }
}

TEST_CASE("beam search: sources do not meet, and finished ones leave the batch") {
  const ToyModel model{.vocabulary = 6, .seed = 3};
  const nn::BeamSearchOptions options{.num_beams = 3, .max_length = 15};
  const Ids sources{4, 0, 9, 2, 11, 5, 4};
  const std::vector<nn::BeamHypothesis> together = search(model, sources, options);
  size_t rows_alone = 0, rows_of_first_steps = 0;
  for (size_t i = 0; i < sources.size(); ++i) {
    ToyScorer alone(model, {sources[i]});
    check_same(together[i], nn::beam_search(alone.scorer(), 1, options)[0]);
    rows_alone += alone.rows;
    rows_of_first_steps += alone.steps;
  }
  ToyScorer counted(model, sources);
  nn::beam_search(counted.scorer(), std::ssize(sources), options);
  CHECK(counted.rows == rows_alone);
  CHECK(rows_of_first_steps < rows_alone);
}

TEST_CASE("beam search where few tokens or none are left") {
  // If all tokens except one are banned, there is one beam. When this token may not be repeated, the text ends.
  const ToyModel model{.vocabulary = 5};
  nn::BeamSearchOptions options{
      .num_beams = 3, .min_length = 8, .max_length = 8, .no_repeat_ngram_size = 0, .suppress_tokens = {2, 3}};
  check_same(search(model, {0, 1}, options)[1], slow_search(model, 1, options));
  options.no_repeat_ngram_size = 3;
  CHECK(search(model, {0, 1}, options)[1].ids == Ids(2 + 1, 4));
  options.suppress_tokens = {2, 3, 4};
  const nn::BeamHypothesis empty = search(model, {0}, options)[0];
  CHECK(empty.ids.empty());
  CHECK(empty.score == 0);
}

TEST_CASE("beam search of a model: greedy, scores and batches") {
  size_t different = 0;
  for (const char* const mechanism : {"softmax", "fastmax2", "fastformer", "linear", "performer", "reformer"}) {
    CAPTURE(mechanism);
    const std::unique_ptr<nn::EncoderDecoder> owner = small_writer(mechanism);
    nn::EncoderDecoder& model = *owner;
    Generator rng(5);
    const Tensor source = randint(2, 9, {4, 8}, rng);
    const Tensor mask = lt(arange(8).unsqueeze(0), tensor({8, 3, 5, 8}, DType::int64).unsqueeze(1));
    const nn::BeamSearchOptions options{.num_beams = 4, .max_length = 10, .suppress_tokens = {2}};
    const std::vector<nn::BeamHypothesis> found = nn::beam_search(model, source, mask, options);
    CHECK(model.training());
    model.eval();
    const NoGrad no_grad;
    for (size_t i = 0; i < found.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      const Ids& ids = found[i].ids;
      different += ids != found[0].ids;
      Ids inputs{0}, next = ids;
      inputs.insert(inputs.end(), ids.begin(), ids.end());
      if (std::ssize(ids) < options.max_length) next.push_back(1);
      if (std::ssize(inputs) > options.max_length) inputs.pop_back();
      const Tensor log_probs = log_softmax(
          model(source.narrow(0, row, 1), mask.narrow(0, row, 1), tensor(inputs).unsqueeze(0)).squeeze(0));
      const double sum = gather(log_probs, 1, tensor(next).unsqueeze(1)).sum().item();
      if (std::string_view(mechanism) != "reformer") {  // its chunks depend on the number of tokens
        CHECK(std::abs(found[i].score - score_of(options, sum, std::ssize(next))) < 1e-5);
      }
      // Alone, and without padding.
      const int64_t length = mask.select(0, row).to(DType::int64).sum().item<int64_t>();
      const nn::BeamHypothesis alone =
          nn::beam_search(model, source.narrow(0, row, 1).narrow(1, 0, length), {}, options)[0];
      CHECK(alone.ids == ids);
      CHECK(std::abs(alone.score - found[i].score) < 1e-5);
    }

    const nn::BeamSearchOptions greedy{
        .num_beams = 1, .length_penalty = 0, .max_length = 10, .no_repeat_ngram_size = 0};
    const Ids best = nn::beam_search(model, source, mask, greedy)[2].ids;
    nn::EncoderDecoderState state = model.start(source, mask);
    Tensor ids = zeros({4}, DType::int64);
    for (int64_t t = 0; t < 10; ++t) {
      Tensor logits = model.step(state, ids);
      logits.select(1, 0).fill_(-100);
      ids = argmax(logits, 1);
      const auto id = ids[2].item<int64_t>();
      if (t == std::ssize(best)) CHECK(id == 1);
      if (t >= std::ssize(best)) break;
      CHECK(id == best[static_cast<size_t>(t)]);
    }
  }
  CHECK(different > 4);
}

TEST_CASE("beam search: bad input") {
  const auto refused = [](const nn::BeamSearchOptions& options, const char* because) {
    CHECK_THROWS_WITH_AS(search({}, {0}, options), doctest::Contains(because), ValueError);
  };
  refused({.num_beams = 0}, "beam_search: num_beams is 0; it must be from 1 to 1048576");
  refused({.num_beams = int64_t{1} << 60}, "it must be from 1 to 1048576");
  refused({.eos_token_id = 0}, "eos_token_id 0 is bos_token_id or in suppress_tokens, so that no text could end");
  refused({.suppress_tokens = {1}}, "eos_token_id 1 is bos_token_id or in suppress_tokens");
  refused({.suppress_tokens = {5}}, "suppress_tokens has 5, which is not in the vocabulary, 0 to 4");
  refused({.max_length = 0}, "lengths from 0 to 0; min_length must be from 0 to max_length, which is at least 1");
  refused({.min_length = -1}, "lengths from -1 to 20");
  refused({.min_length = 21}, "lengths from 21 to 20");
  refused({.length_penalty = -1}, "length_penalty -1 and no_repeat_ngram_size 3 must be 0 or more");
  refused({.length_penalty = std::nan("")}, "length_penalty nan");
  refused({.no_repeat_ngram_size = -1}, "no_repeat_ngram_size -1 must be 0 or more");
  refused({.eos_token_id = 5}, "bos_token_id 0 and eos_token_id 5 must be in the vocabulary, 0 to 4");
  refused({.bos_token_id = -1}, "bos_token_id -1 and eos_token_id 1 must be in the vocabulary");
  CHECK_THROWS_WITH_AS(search({}, {}, {}), doctest::Contains("0 sources; it takes at least 1"), ValueError);

  const nn::BeamScorer wrong{[](const Tensor&) { return zeros({3, 5}); }, [](const Tensor&, const Tensor&) {}};
  CHECK_THROWS_WITH_AS(nn::beam_search(wrong, 2),
                       doctest::Contains("the log-probabilities of 2 targets are [3, 5]; they should be [2, V]"),
                       ShapeError);
  for (const DType dtype : {DType::float32, DType::float64}) {
    const auto step = [&](const Tensor& ids) {
      Tensor log_probs = zeros({ids.size(0), 70}, dtype);
      log_probs[{-1, -1}] = std::nan("");
      return log_probs;
    };
    CHECK_THROWS_WITH_AS(nn::beam_search({step, [](const Tensor&, const Tensor&) {}}, 2),
                         doctest::Contains("a log-probability is NaN"), ValueError);
  }

  const std::unique_ptr<nn::EncoderDecoder> owner = small_writer("softmax");
  nn::EncoderDecoder& model = *owner;
  const Tensor source = zeros({1, 4}, DType::int64);
  CHECK_THROWS_WITH_AS(nn::beam_search(model, source, {}, {.max_length = 11}),
                       doctest::Contains("max_length is 11, but the model's target_tokens is 10"), ValueError);
  CHECK_THROWS_WITH_AS(nn::beam_search(model, source, {}, {.max_length = 10, .eos_token_id = 9}),
                       doctest::Contains("must be in the vocabulary, 0 to 8"), ValueError);
}
