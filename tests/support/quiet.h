#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace linnet::test {

/// While it exists, stdout of this process, or stderr, is discarded.
class Quiet {
 public:
  explicit Quiet(int output = STDOUT_FILENO) : output_((std::fflush(nullptr), output)), before_(::dup(output)) {
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    ::dup2(nowhere, output_);
    ::close(nowhere);
  }
  ~Quiet() {
    std::fflush(nullptr);
    ::dup2(before_, output_);
    ::close(before_);
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  int output_, before_;
};

}  // namespace linnet::test
