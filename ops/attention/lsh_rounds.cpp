#include <linnet/ops/detail/lsh_rounds.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include <linnet/core/parallel/parallel.h>
#include <linnet/ops/array/creation.h>

namespace linnet::detail {
namespace {

/// Sorts one head in one round.
class SortedHead {
 public:
  SortedHead(const int64_t* buckets, const std::vector<bool>& kept, size_t first_kept, int64_t tokens, int64_t chunk,
             bool causal)
      : tokens_(tokens),
        chunk_(chunk),
        causal_(causal),
        order_(static_cast<size_t>(tokens)),
        bucket_(static_cast<size_t>(tokens)) {
    const auto is_kept = [&](int64_t i) { return kept.empty() || kept[first_kept + static_cast<size_t>(i)]; };
    const int64_t behind_all = *std::max_element(buckets, buckets + tokens) + 1;
    std::vector<int64_t> next(static_cast<size_t>(behind_all) + 2);
    for (int64_t i = 0; i < tokens; ++i) ++next[static_cast<size_t>(is_kept(i) ? buckets[i] : behind_all) + 1];
    for (size_t b = 1; b < next.size(); ++b) next[b] += next[b - 1];
    begin_of_ = next;
    for (int64_t i = 0; i < tokens; ++i) {
      const int64_t bucket = is_kept(i) ? buckets[i] : behind_all;
      const auto place = static_cast<size_t>(next[static_cast<size_t>(bucket)]++);
      order_[place] = i;
      bucket_[place] = bucket;
    }
    padding_from_ = begin_of_[static_cast<size_t>(behind_all)];
  }

  int64_t position(int64_t place) const { return order_[static_cast<size_t>(place)]; }
  /// The sorted tokens that a sorted token sees: of its bucket, in its chunk and the one before.
  std::pair<int64_t, int64_t> seen(int64_t place) const {
    if (place >= padding_from_) return {place, place};
    const auto bucket = static_cast<size_t>(bucket_[static_cast<size_t>(place)]);
    const int64_t chunk = place / chunk_;
    const int64_t begin = std::max(begin_of_[bucket], (chunk - 1) * chunk_);
    return {begin, causal_ ? place + 1 : std::min(begin_of_[bucket + 1], (chunk + 1) * chunk_)};
  }
  /// A number whose difference between two tokens is 0 or 1 where the first has the bucket of the second, and its
  /// chunk or the one after. Those of padding do not matter: no range includes it.
  int32_t code(int64_t place) const {
    const int64_t chunks = (tokens_ + chunk_ - 1) / chunk_, bucket = bucket_[static_cast<size_t>(place)];
    return static_cast<int32_t>(bucket * (chunks + 2) + place / chunk_);
  }

 private:
  int64_t tokens_, chunk_;
  bool causal_;
  int64_t padding_from_ = 0;             // the first sorted token that is padding
  std::vector<int64_t> order_, bucket_;  // of sorted tokens
  std::vector<int64_t> begin_of_;        // the first sorted token of each bucket
};

}  // namespace

std::vector<LshRound> lsh_rounds(const Tensor& buckets, const LshAttentionOptions& options) {
  const int64_t batch = buckets.size(0), heads = buckets.size(1), rounds = buckets.size(2), tokens = buckets.size(3);
  const auto count = static_cast<size_t>(batch * heads * tokens);
  const std::vector<int64_t> bucket_of = buckets.to_vector<int64_t>();
  const std::vector<bool> kept =
      options.padding_mask.defined() ? options.padding_mask.to_vector<bool>() : std::vector<bool>();
  std::vector<std::vector<int32_t>> codes(static_cast<size_t>(rounds), std::vector<int32_t>(count));  // of tokens
  std::vector<LshRound> sorted;
  for (int64_t r = 0; r < rounds; ++r) {
    std::vector<int64_t> order(count), ranges(2 * count);
    std::vector<int32_t> earlier(count * static_cast<size_t>(r));
    parallel_tasks(tokens > 0 ? batch * heads : 0, [&](int64_t head) {
      const auto first = static_cast<size_t>(head * tokens);
      const SortedHead of_head(bucket_of.data() + (head * rounds + r) * tokens, kept,
                               static_cast<size_t>(head / heads * tokens), tokens, options.chunk, options.causal);
      for (int64_t place = 0; place < tokens; ++place) {
        const int64_t position = of_head.position(place);
        const auto [begin, end] = of_head.seen(place);
        const size_t at = first + static_cast<size_t>(place), from = first + static_cast<size_t>(position);
        order[at] = position;
        ranges[2 * at] = begin;
        ranges[2 * at + 1] = end;
        codes[static_cast<size_t>(r)][from] = of_head.code(place);
        for (size_t before = 0; before < static_cast<size_t>(r); ++before) {
          earlier[(static_cast<size_t>(head) * static_cast<size_t>(r) + before) * static_cast<size_t>(tokens) +
                  static_cast<size_t>(place)] = codes[before][from];
        }
      }
    });
    const Device device = buckets.device();
    sorted.push_back({tensor(order, {batch, heads, tokens}).to(device),
                      tensor(ranges, {batch, heads, tokens, 2}).to(device),
                      r > 0 ? tensor(earlier, {batch, heads, r, tokens}).to(device) : Tensor()});
  }
  return sorted;
}

}  // namespace linnet::detail
