#pragma once

#include <utility>
#include <vector>

#include <linnet/nn/module.h>

namespace linnet::nn {

/// A guard: while it lives, the model is in evaluation mode. Afterwards each module has the mode that it had before.
class Evaluation {
 public:
  [[nodiscard("give it a name: an unnamed guard ends at once")]] explicit Evaluation(Module& model) {
    remember(model);
    model.eval();
  }
  ~Evaluation() {
    for (const auto& [module, training] : modes_) module->training_ = training;
  }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

 private:
  void remember(Module& module) {
    modes_.emplace_back(&module, module.training_);
    for (Module* child : module.children_) remember(*child);
  }

  std::vector<std::pair<Module*, bool>> modes_;
};

}  // namespace linnet::nn
