#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace linnet::examples::test {

/// While it exists, LINNET_DATA and the current folder are changed.
class Surroundings {
 public:
  Surroundings(const std::filesystem::path& data, const std::filesystem::path& current)
      : current_(std::filesystem::current_path()) {
    if (const char* before = std::getenv("LINNET_DATA")) data_ = before;
    setenv("LINNET_DATA", data.c_str(), 1);
    std::filesystem::current_path(current);
  }
  ~Surroundings() {
    data_.empty() ? unsetenv("LINNET_DATA") : setenv("LINNET_DATA", data_.c_str(), 1);
    std::filesystem::current_path(current_);
  }
  Surroundings(const Surroundings&) = delete;
  Surroundings& operator=(const Surroundings&) = delete;

 private:
  std::string data_;
  std::filesystem::path current_;
};

}  // namespace linnet::examples::test
