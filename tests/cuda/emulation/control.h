#pragma once

#include <cstddef>
#include <string>

#include <cuda_runtime_api.h>

/// What tests decide of the emulated GPU: which calls fail, and when streams do their work.

namespace linnet::emulation {

/// What it says of itself.
struct Properties {
  int major = 9, minor = 0;
  int driver = 13000;  ///< for CUDA of this version; 0 for none
  int devices = 1;
};
Properties& properties();

/// The next call of the function does nothing and returns `status`; of several, told one after the other, each one
/// call more. "launch" is that of any kernel.
void fail_next(const std::string& function, int status);

/// Called by each function that can fail so: what it shall return at once, or 0.
int status_told(const char* function = __builtin_FUNCTION());
/// The same of CUDA's runtime, which keeps it for cudaGetLastError too.
cudaError_t error_told(const char* function = __builtin_FUNCTION());

/// Streams by the order in which they were made.
constexpr int kKernels = 0, kCopies = 1;
int streams_made();

/// While one lives, the stream does its work as late as possible: when something waits for it.
class Late {
 public:
  explicit Late(int stream);
  ~Late();
  Late(const Late&) = delete;
  Late& operator=(const Late&) = delete;

 private:
  cudaStream_t stream_;
};

/// How much a stream has still to do.
size_t work_left(int stream);

/// While one lives, the stream does not wait for events; for kHost, the host does not.
constexpr int kHost = -1;
class Impatient {
 public:
  explicit Impatient(int stream);
  ~Impatient();
  Impatient(const Impatient&) = delete;
  Impatient& operator=(const Impatient&) = delete;
};

}  // namespace linnet::emulation
