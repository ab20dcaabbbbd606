#include <linnet/nn/models/beam_search.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/nn/models/evaluation.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/layers/softmax.h>

namespace linnet::nn {

namespace {

/// An open hypothesis.
struct Beam {
  std::vector<int64_t> ids;
  double sum = 0;     ///< of the log-probabilities of its tokens
  size_t parent = 0;  ///< the beam of the previous step that it extends
};

/// A beam extended by one token.
struct BeamCandidate {
  double sum = -std::numeric_limits<double>::infinity();
  size_t beam = 0;
  int64_t id = 0;
};

/// The best candidates so far, in order.
class BestCandidates {
 public:
  explicit BestCandidates(size_t most) : best_(most) {}

  /// Adds the extensions of a beam by all tokens that are not banned. Of candidates with equal sums, the one that was
  /// added first ranks first.
  template <class T>
  void add(std::span<const T> log_probs, double sum, size_t beam, const std::vector<int64_t>& banned) {
    constexpr size_t kPiece = 64;  // most pieces have no candidate for `best_`, and one quick check skips them
    for (size_t begin = 0; begin < log_probs.size(); begin += kPiece) {
      const std::span<const T> piece = log_probs.subspan(begin, std::min(kPiece, log_probs.size() - begin));
      bool better = false, numbers = true;
      for (const T log_prob : piece) {
        better |= sum + log_prob > best_.back().sum;
        numbers &= !std::isnan(log_prob);
      }
      if (!numbers) throw ValueError("a log-probability is NaN; has the training diverged?");
      for (size_t i = 0; better && i < piece.size(); ++i) {
        const auto id = static_cast<int64_t>(begin + i);
        const BeamCandidate candidate{sum + piece[i], beam, id};
        if (candidate.sum > best_.back().sum && std::ranges::find(banned, id) == banned.end()) insert(candidate);
      }
    }
  }

  std::span<const BeamCandidate> all() const { return std::span(best_).first(filled_); }

 private:
  void insert(const BeamCandidate& candidate) {
    const auto place = std::ranges::upper_bound(best_, candidate.sum, std::ranges::greater{}, &BeamCandidate::sum);
    std::move_backward(place, best_.end() - 1, best_.end());
    *place = candidate;
    filled_ = std::min(filled_ + 1, best_.size());
  }

  std::vector<BeamCandidate> best_;
  size_t filled_ = 0;
};

/// The search for the target of one source.
class SourceSearch {
 public:
  SourceSearch(const BeamSearchOptions& options, size_t source) : options_(options), source_(source) {}

  size_t source() const { return source_; }
  const std::vector<Beam>& open() const { return open_; }
  const BeamHypothesis& best() const { return closed_.front(); }

  /// Extends the open beams to `length` tokens. `log_probs` has a row for each. Returns whether the search continues.
  template <class T>
  bool extend(std::span<const T> log_probs, size_t vocabulary, int64_t length) {
    const auto beams = static_cast<size_t>(options_.num_beams);
    BestCandidates best(2 * beams);
    for (size_t i = 0; i < open_.size(); ++i) {
      best.add(log_probs.subspan(i * vocabulary, vocabulary), open_[i].sum, i, banned_after(open_[i].ids, length));
    }
    const std::vector<Beam> before = std::exchange(open_, {});
    for (size_t place = 0; place < best.all().size(); ++place) {
      const auto& [sum, beam, id] = best.all()[place];
      if (id == options_.eos_token_id) {
        if (place < beams) close(before[beam].ids, sum, length);
      } else if (open_.size() < beams) {
        open_.push_back({before[beam].ids, sum, beam});
        open_.back().ids.push_back(id);
      }
    }
    if (open_.empty() && closed_.empty()) {  // every token is banned
      for (const Beam& beam : before) close(beam.ids, beam.sum, length - 1);
    }
    if (length == options_.max_length) {
      for (const Beam& beam : open_) close(beam.ids, beam.sum, length);
    }
    return !open_.empty() && length < options_.max_length &&
           (closed_.size() < beams || score(open_.front().sum, options_.max_length) > closed_.back().score);
  }

 private:
  double score(double sum, int64_t length) const {
    return sum / std::pow(static_cast<double>(5 + length) / 6, options_.length_penalty);  // [Wu 2016 eq.14]
  }

  /// Keeps a hypothesis among the best.
  void close(const std::vector<int64_t>& ids, double sum, int64_t length) {
    const double of_this = score(sum, length);
    const auto place = std::ranges::upper_bound(closed_, of_this, std::ranges::greater{}, &BeamHypothesis::score);
    closed_.insert(place, {ids, of_this});
    if (std::cmp_greater(closed_.size(), options_.num_beams)) closed_.pop_back();
  }

  /// The tokens that cannot be number `length` of a hypothesis.
  std::vector<int64_t> banned_after(const std::vector<int64_t>& ids, int64_t length) const {
    std::vector<int64_t> banned = options_.suppress_tokens;
    banned.push_back(options_.bos_token_id);
    if (length < options_.min_length) banned.push_back(options_.eos_token_id);
    const int64_t before = options_.no_repeat_ngram_size - 1;
    for (int64_t i = 0; before >= 0 && i + before < std::ssize(ids); ++i) {
      const auto run = ids.begin() + i;  // if the last `before` tokens equal this run, the token after it is banned
      if (std::equal(run, run + before, ids.end() - before)) banned.push_back(run[before]);
    }
    return banned;
  }

  const BeamSearchOptions& options_;
  size_t source_;
  std::vector<Beam> open_{1};           // from the best to the worst
  std::vector<BeamHypothesis> closed_;  // from the best to the worst
};

void check_options(const BeamSearchOptions& options) {
  constexpr int64_t kMostBeams = 1 << 20;
  if (options.num_beams < 1 || options.num_beams > kMostBeams) {
    throw ValueError(fmt::format("num_beams is {}; it must be from 1 to {}", options.num_beams, kMostBeams));
  }
  if (options.max_length < 1 || options.min_length < 0 || options.min_length > options.max_length) {
    throw ValueError(
        fmt::format("lengths from {} to {}; min_length must be from 0 to max_length, which is at least 1",
                    options.min_length, options.max_length));
  }
  if (!(options.length_penalty >= 0) || options.no_repeat_ngram_size < 0) {
    throw ValueError(fmt::format("length_penalty {} and no_repeat_ngram_size {} must be 0 or more",
                                 options.length_penalty, options.no_repeat_ngram_size));
  }
}

void check_ids(const BeamSearchOptions& options, int64_t vocabulary) {
  for (const int64_t id : {options.bos_token_id, options.eos_token_id}) {
    if (id < 0 || id >= vocabulary) {
      throw ValueError(fmt::format("bos_token_id {} and eos_token_id {} must be in the vocabulary, 0 to {}",
                                   options.bos_token_id, options.eos_token_id, vocabulary - 1));
    }
  }
  for (const int64_t id : options.suppress_tokens) {
    if (id >= 0 && id < vocabulary) continue;
    throw ValueError(
        fmt::format("suppress_tokens has {}, which is not in the vocabulary, 0 to {}", id, vocabulary - 1));
  }
  if (options.bos_token_id == options.eos_token_id ||
      std::ranges::count(options.suppress_tokens, options.eos_token_id) > 0) {
    throw ValueError(fmt::format("eos_token_id {} is bos_token_id or in suppress_tokens, so that no text could end",
                                 options.eos_token_id));
  }
}

/// The searches for all sources of a batch. Each unfinished search has the same number of rows in the model's state.
class BatchSearch {
 public:
  BatchSearch(const BeamScorer& scorer, int64_t sources, const BeamSearchOptions& options)
      : scorer_(scorer), options_(options), best_(static_cast<size_t>(sources)) {
    for (size_t i = 0; i < best_.size(); ++i) searches_.emplace_back(options_, i);
  }

  std::vector<BeamHypothesis> run() {
    std::vector<int64_t> ids(searches_.size(), options_.bos_token_id);
    for (int64_t length = 1; !searches_.empty(); ++length) {
      const Tensor log_probs = step(ids);
      if (log_probs.dtype() == DType::float64) {
        extend(log_probs.data<double>(), length);
      } else {
        extend(log_probs.data<float>(), length);
      }
      if (!searches_.empty()) ids = select();
    }
    return best_;
  }

 private:
  Tensor step(const std::vector<int64_t>& ids) {
    Tensor log_probs = scorer_.step(tensor(ids));
    if (log_probs.rank() != 2 || log_probs.size(0) != std::ssize(ids)) {
      throw ShapeError(fmt::format("the log-probabilities of {} targets are {}; they should be [{}, V]", ids.size(),
                                   to_string(log_probs.shape()), ids.size()));
    }
    check_ids(options_, log_probs.size(1));
    if (log_probs.dtype() != DType::float64) log_probs = log_probs.to(DType::float32);
    return log_probs.to(Device::cpu).contiguous();
  }

  /// Extends the beams of every search, and removes the searches that are finished.
  template <class T>
  void extend(std::span<const T> log_probs, int64_t length) {
    const size_t rows = searches_.size() * group_, vocabulary = log_probs.size() / rows;
    kept_.clear();
    std::vector<SourceSearch> going_on;
    for (size_t i = 0; i < searches_.size(); ++i) {
      const std::span<const T> of_source = log_probs.subspan(i * group_ * vocabulary, group_ * vocabulary);
      if (searches_[i].extend(of_source, vocabulary, length)) {
        going_on.push_back(std::move(searches_[i]));
        kept_.push_back(static_cast<int64_t>(i));
      } else {
        best_[searches_[i].source()] = searches_[i].best();
      }
    }
    all_go_on_ = going_on.size() == searches_.size();
    searches_ = std::move(going_on);
  }

  /// Reorders the model's state for the beams that are open now, and returns the last token of each row. If a source
  /// has fewer beams than rows, the first beam's state fills the other rows.
  std::vector<int64_t> select() {
    const auto beams = static_cast<size_t>(options_.num_beams);
    std::vector<int64_t> ids, rows;
    bool in_place = all_go_on_ && group_ == beams;
    for (size_t i = 0; i < searches_.size(); ++i) {
      const std::vector<Beam>& open = searches_[i].open();
      for (size_t j = 0; j < beams; ++j) {
        const Beam& beam = open[j < open.size() ? j : 0];
        ids.push_back(beam.ids.back());
        rows.push_back(kept_[i] * static_cast<int64_t>(group_) + static_cast<int64_t>(beam.parent));
        in_place = in_place && std::cmp_equal(rows.back(), rows.size() - 1);
      }
    }
    if (!in_place) scorer_.select(tensor(rows), all_go_on_ ? Tensor() : tensor(kept_));
    group_ = beams;
    return ids;
  }

  const BeamScorer& scorer_;
  const BeamSearchOptions& options_;
  std::vector<SourceSearch> searches_;
  std::vector<BeamHypothesis> best_;  // of all sources
  std::vector<int64_t> kept_;         // the positions in the last batch of the sources that continue
  bool all_go_on_ = true;
  size_t group_ = 1;  // rows for each source
};

}  // namespace

std::vector<BeamHypothesis> beam_search(const BeamScorer& scorer, int64_t sources, const BeamSearchOptions& options,
                                        Where where) {
  const Call call("beam_search", where);
  check_options(options);
  if (sources < 1) throw ValueError(fmt::format("{} sources; it takes at least 1", sources));
  const NoGrad no_grad;
  return BatchSearch(scorer, sources, options).run();
}

std::vector<BeamHypothesis> beam_search(EncoderDecoder& model, const Tensor& source, const Tensor& source_mask,
                                        const BeamSearchOptions& options, Where where) {
  const Call call("beam_search", where);
  check_options(options);
  check_ids(options, model.config().vocabulary);
  if (options.max_length > model.config().target_tokens) {
    throw ValueError(fmt::format("max_length is {}, but the model's target_tokens is {}", options.max_length,
                                 model.config().target_tokens));
  }
  const NoGrad no_grad;
  const Evaluation evaluation(model);
  EncoderDecoderState state = model.start(source, source_mask);
  const Device device = model.device();
  const BeamScorer scorer{.step = [&](const Tensor& ids) { return log_softmax(model.step(state, ids.to(device))); },
                          .select =
                              [&](const Tensor& rows, const Tensor& sources) {
                                state.select(rows.to(device), sources.defined() ? sources.to(device) : sources);
                              }};
  return beam_search(scorer, source.size(0), options, where);
}

}  // namespace linnet::nn
