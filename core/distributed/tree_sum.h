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
/// In step k of the first half, ranks that differ in bit k alone have the same part of the tensor, summed over their
/// own 2^k neighbours. Each keeps a half of this part, sends the other half, and adds what it receives. Both sums of
/// an element thus meet as the tree has it, and a + b has the bits of b + a. The second half takes the same steps
/// back and exchanges whole parts.
class [[gnu::visibility("hidden")]] TreeSum : public Work::Steps {
 public:
  /// `x` is contiguous. `sent` counts the bytes that are sent. Exchanges begin with the first `advance`.
  TreeSum(detail::Messages& messages, const Tensor& x, int tag, std::shared_ptr<int64_t> sent);

  bool advance(bool wait) override;

 private:
  /// Elements begin … begin + count - 1.
  struct Part {
    int64_t begin, count;
  };

  bool is_halving() const { return step_ < levels_; }
  bool is_done() const { return step_ == 2 * levels_; }
  /// The bit in which the partner of this step differs.
  int bit() const { return is_halving() ? step_ : 2 * levels_ - 1 - step_; }
  /// The halves of the part that this rank and its partner have in this step: its own and the partner's.
  std::pair<Part, Part> halves() const;
  void begin_step();
  void end_step();
  Tensor elements(const Tensor& of, Part part) const { return of.narrow(0, part.begin, part.count); }

  detail::Messages& messages_;
  Tensor x_;
  Tensor received_;  ///< of the first half. Messages between GPUs may not have reached it until this is destroyed.
  int tag_, levels_;
  std::shared_ptr<int64_t> sent_;
  int step_ = 0;
  std::vector<Part> parts_;  ///< that this rank had before each step of the first half, and after it
  bool is_under_way_ = false;
  Work exchange_;
};

}  // namespace linnet
