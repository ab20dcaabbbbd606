#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <linnet/core/error.h>
#include <linnet/core/files/utf8.h>

/// The numbers of a data set's classes. Internal to nn.

namespace linnet::detail {

/// Finds the number of a class by its name. The names must outlive it.
class ClassNumbers {
 public:
  /// Throws: ValueError for a name that is there twice.
  explicit ClassNumbers(const std::vector<std::string>& names) : names_(names) {
    for (const std::string& name : names) {
      if (numbers_.emplace(name, std::ssize(numbers_)).second) continue;
      throw ValueError(fmt::format("the class '{}' is given twice; name each class once", shortened(name)));
    }
  }

  /// The number of a class; none for another name.
  std::optional<int64_t> find(std::string_view name) const {
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }

  /// Says for a message that a name is of no class: "none of the classes 'cat', 'dog'".
  std::string none_of_them() const {
    return fmt::format("none of the classes '{}'", shortened(fmt::format("{}", fmt::join(names_, "', '"))));
  }

 private:
  const std::vector<std::string>& names_;
  std::map<std::string_view, int64_t> numbers_;
};

}  // namespace linnet::detail
