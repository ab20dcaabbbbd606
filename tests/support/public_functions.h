#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace linnet::test {

/// Names of the free functions that `header` (its text) declares directly in namespace linnet, operators
/// aside.
std::set<std::string> functions_in(const std::string& header);

/// Names of the member functions of Tensor in core/tensor.h that make one tensor, or several, from it.
std::set<std::string> tensor_members_in(const std::string& header);

std::string read_text(const std::filesystem::path& path);

}  // namespace linnet::test
