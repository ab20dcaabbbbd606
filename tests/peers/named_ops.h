#pragma once

#include <string>
#include <vector>

#include <linnet/core/tensor.h>
#include <nlohmann/json.hpp>

namespace linnet::peers {

/// The results of the op with this name. The names of ops and arguments are those of random_arrays.py and
/// random_layers.py, which name PyTorch's function for each; a number may be a string, such as "inf". An input
/// that is left out is an undefined tensor.
std::vector<Tensor> run(const std::string& op, const std::vector<Tensor>& inputs, const nlohmann::json& arguments);

}  // namespace linnet::peers
