#include <linnet/ops/detail/lsh_rounds.h>

#include <utility>

#include <linnet/core/autograd/recording.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/array/sorting.h>
#include <linnet/ops/detail/indexing.h>
#include <linnet/ops/detail/key_ranges.h>

namespace linnet::detail {
namespace {

/// Buckets [R, B, H, N], where padding is in one more bucket after all others.
Tensor with_padding_behind(const Tensor& buckets, const Tensor& padding_mask) {
  return padding_mask.defined() ? where(padding_mask.unsqueeze(1), buckets, max(buckets) + 1) : buckets;
}

/// Numbers sorted tokens from 2 on. The number grows by 1 in a bucket's next chunk, and by 2 or more in the next
/// bucket. So a token sees the tokens with its own number and with one less.
Tensor numbers_of(const Tensor& sorted_buckets, int64_t chunk) {
  const int64_t tokens = sorted_buckets.size(3);
  const Tensor before = concat({sorted_buckets.narrow(3, 0, 1), sorted_buckets.narrow(3, 0, tokens - 1)}, 3);
  return cumsum(ne(sorted_buckets, before), 3) * 2 +
         Recording::constant(floor_divide(arange(tokens), chunk) + 2, sorted_buckets.device());
}

/// The sorted tokens that each one sees, [R, B, H, N, 2].
Tensor ranges_of(const Tensor& numbers, const LshAttentionOptions& options) {
  const int64_t tokens = numbers.size(3);
  Shape shape = numbers.shape();
  shape[3] = 2 * tokens + tokens / options.chunk + 1;  // more than the largest number
  const Tensor one = ones({1, 1, 1, 1}, DType::int64, numbers.device());
  const Tensor counts =
      scatter_add_elements(zeros(shape, DType::int64, numbers.device()), 3, numbers, one.expand(numbers.shape()));
  const Tensor up_to = cumsum(counts, 3);  // how many tokens have at most that number
  Tensor end = options.causal ? Recording::constant(arange(1, tokens + 1), numbers.device())
                              : gather_elements(up_to, 3, numbers);
  if (options.padding_mask.defined()) {
    end = minimum(end, sum(options.padding_mask, {1}, true).unsqueeze(1));  // padding comes last
  }
  return key_ranges(gather_elements(up_to, 3, numbers - 2), end);
}

}  // namespace

Tensor LshRound::inverse() const { return argsort(order); }

std::vector<LshRound> lsh_rounds(const Tensor& buckets, const LshAttentionOptions& options) {
  std::vector<LshRound> rounds;
  if (buckets.numel() == 0) return rounds;
  const auto [sorted_buckets, order] = sort(with_padding_behind(buckets.permute({2, 0, 1, 3}), options.padding_mask));
  const Tensor inverse = argsort(order), numbers = numbers_of(sorted_buckets, options.chunk);
  const Tensor ranges = ranges_of(numbers, options);
  const Tensor codes = gather_elements(numbers.to(DType::int32), 3, inverse).permute({1, 2, 0, 3});  // of tokens
  for (int64_t r = 0; r < buckets.size(2); ++r) {
    LshRound round{order.select(0, r), ranges.select(0, r), {}};
    if (r > 0) {
      const Tensor earlier = codes.narrow(2, 0, r);
      round.codes = gather_elements(earlier, 3, round.order.unsqueeze(2).expand(earlier.shape()));
    }
    rounds.push_back(std::move(round));
  }
  return rounds;
}

}  // namespace linnet::detail
