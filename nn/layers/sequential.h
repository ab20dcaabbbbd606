#pragma once

#include <functional>
#include <iterator>
#include <memory>
#include <type_traits>

#include <linnet/nn/module.h>
#include <linnet/ops/layers/activation.h>

namespace linnet::nn {

/// Modules and functions applied one after the other, and named by their position.
///
///     nn::Sequential net(rng);
///     net.add<nn::Linear>(784, 128).add(gelu).add<nn::Linear>(128, 10);
///     net.add([](const Tensor& x) { return softmax(x, -1); });
///
/// The options of a layer need their type, and a function with options needs a lambda:
///
///     nn::Sequential net(rng);
///     net.add<nn::Conv2d>(1, 6, 5, nn::Conv2dConfig{.padding = 2});
///     net.add([](const Tensor& x) { return leaky_relu(x, 0.1).flatten(1); });
class Sequential : public Module {
 public:
  /// A whole model, or a submodule of `parent`.
  explicit Sequential(Generator& rng, DType dtype = DType::float32, Device device = Device::cpu)
      : Module(rng, dtype, device) {}
  Sequential(Module& parent, std::string name) : Module(parent, std::move(name)) {}

  /// Appends M(*this, position, args...), which is called with a tensor, and with the caller's line if it takes a
  /// Where.
  template <class M, class... Args>
  Sequential& add(Args&&... args) {
    static_assert(std::is_base_of_v<Module, M>, "add<M> appends a module; functions go to add(function)");
    constexpr bool takes_where = std::is_invocable_r_v<Tensor, M&, const Tensor&, Where>;
    static_assert(
        takes_where || std::is_invocable_r_v<Tensor, M&, const Tensor&>,
        "add<M> appends a module with Tensor operator()(const Tensor& x), or (const Tensor& x, Where where)");
    auto module = std::make_unique<M>(*this, std::to_string(stages_.size()), std::forward<Args>(args)...);
    auto apply = [m = module.get()](const Tensor& x, [[maybe_unused]] Where where) {
      if constexpr (takes_where) {
        return (*m)(x, where);
      } else {
        return (*m)(x);
      }
    };
    return append(std::move(module), std::move(apply));
  }
  /// Appends a function.
  Sequential& add(std::function<Tensor(const Tensor&)> function) {
    return append(nullptr, [function = std::move(function)](const Tensor& x, Where) { return function(x); });
  }
  /// Appends an activation, such as `relu`, which is called with the caller's line.
  Sequential& add(Tensor (*activation)(const Tensor&, Where)) { return append(nullptr, activation); }
  /// Appends `gelu`.
  Sequential& add(Tensor (*gelu)(const Tensor&, Gelu, Where)) {
    return append(nullptr, [gelu](const Tensor& x, Where where) { return gelu(x, Gelu::erf, where); });
  }

  int64_t size() const { return std::ssize(stages_); }  ///< how many modules and functions there are
  /// Module `i`, which has the type M, counted with the functions; a negative `i` counts from the end.
  ///
  ///     nn::Sequential net(rng);
  ///     net.add<nn::Linear>(784, 128).add(relu).add<nn::Linear>(128, 10);
  ///     nn::init::zeros_(net.at<nn::Linear>(2).bias());
  ///
  /// Throws: IndexError for a position that does not exist; ValueError for one with a function, or with a module of
  /// another type.
  template <class M>
  M& at(int64_t i) const {
    const size_t place = position(i, stages_.size());
    Module* const module = stages_[place].module.get();
    if (auto* const of_type = dynamic_cast<M*>(module)) return *of_type;
    refuse_type(place, module);
  }

  /// Applies all of them, in the order in which they were added.
  Tensor operator()(Tensor x, Where where = {}) const {
    for (const Stage& stage : stages_) x = stage.apply(x, where);
    return x;
  }

 private:
  using Apply = std::function<Tensor(const Tensor&, Where)>;
  struct Stage {
    std::unique_ptr<Module> module;  // null for a function
    Apply apply;
  };

  Sequential& append(std::unique_ptr<Module> module, Apply apply) {
    stages_.push_back({std::move(module), std::move(apply)});
    return *this;
  }

  std::vector<Stage> stages_;
};

}  // namespace linnet::nn
