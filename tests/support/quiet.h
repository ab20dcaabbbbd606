#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace linnet::test {

/// While it exists, stdout of this process is discarded.
class Quiet {
 public:
  Quiet() : before_((std::fflush(stdout), ::dup(STDOUT_FILENO))) {
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    ::dup2(nowhere, STDOUT_FILENO);
    ::close(nowhere);
  }
  ~Quiet() {
    std::fflush(stdout);
    ::dup2(before_, STDOUT_FILENO);
    ::close(before_);
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  int before_;
};

}  // namespace linnet::test
