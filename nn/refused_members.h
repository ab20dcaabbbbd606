#pragma once

#include <linnet/core/refused.h>

namespace linnet::detail {

/// Members of PyTorch's modules and optimizers that linnet's do not have. Each makes the compiler say what to write
/// instead.
class RefusedStateMembers {
 public:
  template <class... Arguments>
  void state_dict(const Arguments&...) const {
    static_assert(refused<Arguments...>,
                  "the state is state(); model.save(path) writes that of a model, and nn::Checkpoint that of a run");
  }
  template <class... Arguments>
  void load_state_dict(const Arguments&...) const {
    static_assert(refused<Arguments...>, "write load_state(state), or model.load(path) for a file");
  }
};

/// Members of PyTorch's modules alone.
class RefusedModuleMembers : public RefusedStateMembers {
 public:
  template <class... Arguments>
  void forward(const Arguments&...) const {
    static_assert(refused<Arguments...>, "a module is called: write model(x)");
  }
  template <class... Nothing>
  void zero_grad(Nothing...) const {
    static_assert(refused<Nothing...>, "gradients are dropped by the optimizer: write optimizer.zero_grad()");
  }
  template <class... Arguments>
  void to(const Arguments&...) const {
    static_assert(refused<Arguments...>,
                  "a model is made on its device and of its dtype: its constructor gives both to the base, "
                  "Module(rng, DType::float32, Device::cuda)");
  }
  template <class... Nothing>
  void cuda() const {
    static_assert(refused<Nothing...>,
                  "a model is made on its device: its constructor gives it to the base, "
                  "Module(rng, DType::float32, Device::cuda)");
  }
  template <class... Nothing>
  void requires_grad_(Nothing...) const {
    static_assert(refused<Nothing...>, "write model.freeze() or model.unfreeze()");
  }
  template <class... Arguments>
  void apply(const Arguments&...) const {
    static_assert(refused<Arguments...>, "write for (nn::Module* module : model.modules()) …");
  }
  template <class... Arguments>
  void register_module(const Arguments&...) const {
    static_assert(refused<Arguments...>, "a module registers itself: write nn::Linear fc{*this, \"fc\", 3, 4};");
  }
  template <class... Arguments>
  void register_parameter(const Arguments&...) const {
    static_assert(refused<Arguments...>, "write Tensor weight = parameter(\"weight\", value);");
  }
  template <class... Arguments>
  void register_buffer(const Arguments&...) const {
    static_assert(refused<Arguments...>, "write Tensor mean = buffer(\"mean\", value);");
  }
};

}  // namespace linnet::detail
