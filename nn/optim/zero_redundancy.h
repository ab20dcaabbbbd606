#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <linnet/core/distributed.h>
#include <linnet/nn/optim/optim.h>

namespace linnet::nn {

/// Divides the state of an optimizer among the ranks of a group, as PyTorch's ZeroRedundancyOptimizer does. Each
/// parameter has an owner: the only rank that keeps its moments. The owner makes the parameter's step and sends the
/// result to the others. Each of R ranks keeps about 1/R of the state: with AdamW, 8/R bytes for each float32 number
/// of the parameters instead of 8. The parameters are bit for bit the same as with the optimizer alone.
///
///     ProcessGroup group;
///     nn::DataParallel parallel(group, model, {.shards = 8});
///     nn::AdamW adamw(model.parameters(), {.lr = 1e-3});
///     nn::ZeroRedundancyOptimizer optimizer(group, adamw);
///     nn::Checkpoint checkpoint("run.safetensors");
///     checkpoint.add("model", model).add("optimizer", optimizer);
///     nn::Loader loader(data.train, {.batch = 64, .drop_last = true});
///     for (auto [x, y] : loader) {
///       const Tensor inputs = x, targets = y;
///       parallel.backward([&](const nn::Shard& shard) {
///         return cross_entropy(model(shard.of(inputs)), shard.of(targets));
///       });
///       optimizer.step();  // in place of adamw.step()
///       adamw.zero_grad();
///     }
///     checkpoint.save(group);
///
/// A checkpoint that the group saves holds the state of all parameters, as the optimizer alone would write it. So it
/// can be loaded with any number of ranks, and without this class too.
///
/// Parameters are not divided. They are assigned from the largest to the smallest, each to the rank that owns least
/// so far, so no rank owns more than 1/R of all plus one parameter. Learning rates, betas and `zero_grad` stay with
/// the optimizer.
///
/// Cost: a step sends each parameter that has a gradient from its owner to the other ranks.
/// Source: Rajbhandari et al. 2020, ZeRO: memory optimizations toward training trillion parameter models, stage 1.
class ZeroRedundancyOptimizer {
 public:
  /// Make it after parameters are frozen, because it divides the trained ones evenly among the ranks. The group and
  /// the optimizer must outlive it. With one rank it changes nothing.
  ///
  /// Throws: ValueError, with several ranks, for an optimizer that has made steps already.
  ZeroRedundancyOptimizer(ProcessGroup& group, Optimizer& optimizer, Where where = {});
  ZeroRedundancyOptimizer(const ZeroRedundancyOptimizer&) = delete;
  ZeroRedundancyOptimizer& operator=(const ZeroRedundancyOptimizer&) = delete;

  /// Changes every parameter that has a gradient. All ranks make the call, with the same gradients, as DataParallel
  /// leaves them, and the same options.
  ///
  /// Throws: as Optimizer::step.
  void step(const StepOptions& options = {}, Where where = {});

  /// The state for a checkpoint: the moments of this rank's parameters, and the step counts and settings of all. All
  /// ranks make the call.
  TensorMap state() const;
  /// Restores the part of this rank, from the state of all ranks or of this one. An error leaves everything as it
  /// was.
  ///
  /// Throws: as Optimizer::load_state.
  void load_state(const TensorMap& state, Where where = {});
  /// Whether load_state uses the tensor of this name in a state: false for moments of other ranks' parameters.
  bool needs(const std::string& name) const;

  /// The rank that owns each parameter, in the order of the optimizer's groups.
  const std::vector<int>& owners() const { return owners_; }
  /// The bytes of the moments on this rank.
  int64_t state_bytes() const;

 private:
  ProcessGroup& group_;
  Optimizer& optimizer_;
  std::vector<Tensor> parameters_;  // in the order of the optimizer's groups
  std::vector<int> owners_;
};

}  // namespace linnet::nn
