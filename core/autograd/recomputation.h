#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/random/generator.h>

/// How a checkpoint computes again. Internal to core.
///
/// The tape of the first call stays, without the elements of its saved tensors. When backward reads the first of
/// these tensors, the function runs again. Ops then save the same tensors in the same order, and the tape takes their
/// elements. So backward reaches the same nodes, hooks and parameters in the same order as without a checkpoint.

namespace linnet {

/// A call of a checkpoint's function, which can be made again.
class [[gnu::visibility("hidden")]] CheckpointedCall : public std::enable_shared_from_this<CheckpointedCall> {
 public:
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

  CheckpointedCall(Function function, const std::vector<Tensor>& inputs);

  /// Calls the function for the first time.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);

  /// Notes a tensor that an op saves on this thread. Returns null if its elements are to be kept: outside a
  /// checkpoint, and in the tape of a second run, which is dropped.
  static std::shared_ptr<Recomputed> keep(const Tensor& tensor);
  /// Notes the parameters among the inputs of an op on this thread. In a second run it throws AutogradError for one
  /// that was edited since, also if no op saves it.
  static void read(const std::vector<Tensor>& inputs);
  /// The key of a generator's next draw; in a second run, the key of the same draw in the first run.
  static RandomKey draw(Generator::State& state);

 private:
  friend class Recomputed;
  struct Run;
  static thread_local Run* current_;

  /// Computes the elements of all saved tensors that the tape still has.
  void run_again();
  void check_same(const Run& again, const std::vector<Tensor>& outputs) const;

  Function function_;
  std::vector<Saved> inputs_;
  std::vector<std::weak_ptr<Recomputed>> saved_;        ///< in the order in which ops saved them
  std::map<std::shared_ptr<Node>, uint64_t> versions_;  ///< of the parameters that the first run read
  std::vector<RandomKey> keys_;                         ///< of the draws, in their order
  std::vector<std::string> outputs_;                    ///< dtype and shape of each
  std::mutex mutex_;                                    ///< guards the Recomputed: several threads may walk the tape
};

/// A saved tensor of a checkpoint. Its elements are computed when backward needs them, and freed with its last Saved.
class [[gnu::visibility("hidden")]] Recomputed {
 public:
  Recomputed(std::shared_ptr<CheckpointedCall> call, const Tensor& tensor);
  /// The tensor without history.
  Tensor tensor();

 private:
  friend class CheckpointedCall;
  std::shared_ptr<CheckpointedCall> call_;
  std::string kind_;  ///< dtype and shape
  Tensor tensor_;     ///< undefined between the runs; defined in the first run, where f may itself call backward
};

/// A tensor with x's shape, dtype and node in the tape, but without elements.
[[gnu::visibility("hidden")]] Tensor without_elements(const Tensor& x);

}  // namespace linnet
