#pragma once

#include <string>
#include <vector>

#include <linnet/core/tensor.h>
#include <nlohmann/json.hpp>

namespace linnet::peers {

/// What the op of this name returns. The names of ops and arguments are those of random_arrays.py and
/// random_layers.py, where PyTorch's function stands beside each; a number may be a text, such as "inf". An input
/// that is left out is an undefined tensor.
std::vector<Tensor> run(const std::string& op, const std::vector<Tensor>& inputs, const nlohmann::json& arguments);

}  // namespace linnet::peers
