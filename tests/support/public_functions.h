#pragma once

#include <set>
#include <string>

namespace linnet::test {

/// The names of the free functions, without operators, that the text of a header declares directly in namespace
/// linnet.
std::set<std::string> functions_in(const std::string& header);

/// The names of Tensor's member functions in core/tensor.h that return one or several tensors.
std::set<std::string> tensor_members_in(const std::string& header);

}  // namespace linnet::test
