#pragma once

#include <cstddef>
#include <string>

#include <cuda_runtime_api.h>

/// Lets tests control the emulated GPU: which calls fail, and when streams do their work.

namespace linnet::emulation {

/// The properties that the emulated GPU reports.
struct Properties {
  int major = 9, minor = 0;
  int driver = 13000;  ///< supports CUDA up to this version; 0: there is no driver
  int devices = 1;
};
Properties& properties();

/// The next call of the function does nothing and returns `status`. Each further fail_next of the same function
/// applies to one call more. "launch" is the launch of any kernel.
void fail_next(const std::string& function, int status);

/// Called by each function that can fail in this way: the status to return at once, or 0.
int status_told(const char* function = __builtin_FUNCTION());
/// The same for functions of CUDA's runtime, which also keeps the error for cudaGetLastError.
cudaError_t error_told(const char* function = __builtin_FUNCTION());

/// Streams in the order in which they were created.
constexpr int kKernels = 0, kCopies = 1;
int streams_made();

/// While it exists, the stream does its work as late as possible: when something waits for it.
class Late {
 public:
  explicit Late(int stream);
  ~Late();
  Late(const Late&) = delete;
  Late& operator=(const Late&) = delete;

 private:
  cudaStream_t stream_;
};

/// How many pieces of work a stream has not done yet.
size_t work_left(int stream);

/// While it exists, the stream does not wait for events; for kHost, the host does not.
constexpr int kHost = -1;
class Impatient {
 public:
  explicit Impatient(int stream);
  ~Impatient();
  Impatient(const Impatient&) = delete;
  Impatient& operator=(const Impatient&) = delete;
};

}  // namespace linnet::emulation
