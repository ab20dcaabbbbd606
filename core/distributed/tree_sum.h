#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <linnet/core/distributed/transport.h>
#include <linnet/core/tensor.h>

namespace linnet {

/// The sum of a tensor over all ranks in a binary tree, neighbours first, by recursive halving: a reduce-scatter and
/// then an all-gather (Thakur et al. 2005, "Optimization of collective communication operations in MPICH"). Internal
/// to core.
///
/// In step k of the first half, two ranks that differ only in bit k are partners. Both have the same part of the
/// tensor, each summed over its own group of 2^k neighbours. Each keeps a half of this part, sends the other half,
/// and adds the half that it receives. So the two sums of an element are added as in the tree; who adds does not
/// matter, because a + b and b + a have the same bits. The second half takes the same steps back and exchanges whole
/// parts.
class [[gnu::visibility("hidden")]] TreeSum : public Work::Steps {
 public:
  /// `x` is contiguous. `sent` counts the bytes sent. Exchanges begin with the first `advance`.
  TreeSum(detail::Messages& messages, const Tensor& x, int tag, std::shared_ptr<int64_t> sent);

  bool advance(bool wait) override;

 private:
  /// Elements begin … begin + count - 1.
  struct Part {
    int64_t begin, count;
  };

  bool is_halving() const { return step_ < levels_; }
  bool is_done() const { return step_ == 2 * levels_; }
  /// The bit of the rank in which the partner of this step differs.
  int bit() const { return is_halving() ? step_ : 2 * levels_ - 1 - step_; }
  /// The halves of the part that this rank and its partner have in this step: its own and the partner's.
  std::pair<Part, Part> halves() const;
  void begin_step();
  void end_step();
  Tensor elements(const Tensor& of, Part part) const { return of.narrow(0, part.begin, part.count); }

  detail::Messages& messages_;
  Tensor x_;
  Tensor received_;  ///< of the first half; kept to the end, because messages between GPUs may arrive late
  int tag_, levels_;
  std::shared_ptr<int64_t> sent_;
  int step_ = 0;
  std::vector<Part> parts_;  ///< the parts that this rank had before each step of the first half, and after the last
  bool is_under_way_ = false;
  Work exchange_;
};

}  // namespace linnet
