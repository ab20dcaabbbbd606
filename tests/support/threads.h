#pragma once

#include <linnet/core/parallel/parallel.h>

namespace linnet::test {

/// Sets the number of threads, and restores it when destroyed.
class WithThreads {
 public:
  explicit WithThreads(int count) : before_(num_threads()) { set_num_threads(count); }
  ~WithThreads() { set_num_threads(before_); }
  WithThreads(const WithThreads&) = delete;
  WithThreads& operator=(const WithThreads&) = delete;

 private:
  int before_;
};

}  // namespace linnet::test
