#pragma once

#include <utility>
#include <vector>

#include <linnet/nn/attention/mechanism.h>

namespace linnet::test {

/// While it exists, a mechanism is registered. linnet itself never removes one, so the guard edits its list.
class RegisteredMechanism {
 public:
  explicit RegisteredMechanism(nn::Mechanism mechanism) { nn::register_mechanism(std::move(mechanism)); }
  ~RegisteredMechanism() { const_cast<std::vector<nn::Mechanism>&>(nn::mechanisms()).pop_back(); }
  RegisteredMechanism(const RegisteredMechanism&) = delete;
  RegisteredMechanism& operator=(const RegisteredMechanism&) = delete;
};

}  // namespace linnet::test
