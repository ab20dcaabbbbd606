#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <linnet/core/device/backend.h>
#include <linnet/core/random/philox.h>
#include <linnet/core/shape.h>

namespace linnet {

/// One call of a kernel of a backend.
struct KernelCall {
  struct Operand {
    Shape shape;
    Strides strides;
    DType dtype;
  };
  std::string kernel;  ///< its name in `Backend`, and what it computed where it has a choice: "binary add"
  std::string op;      ///< the call or the layer that needed it, as messages name them
  bool backward = false;
  double begin_ms = 0;  ///< since the profile began
  double ms = 0;
  int64_t bytes = 0;  ///< of all elements of its operands
  std::vector<Operand> operands;
  std::vector<RandomKey> keys;  ///< of the random numbers that it draws
};

/// While one lives, the kernels that this thread calls are timed, one entry a call. A GPU is waited for after each,
/// which adds some microseconds to its time. Profiles do not nest: the inner one gets the calls.
///
///     Profile profile;
///     backward(cross_entropy(model(x), y));
///     for (const KernelCall& call : profile.calls()) …
class Profile {
 public:
  [[nodiscard("give it a name, Profile profile;, or it ends in its own line")]] Profile();
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  /// In the order in which they began.
  const std::vector<KernelCall>& calls() const { return calls_; }
  void add(KernelCall call) { calls_.push_back(std::move(call)); }
  /// Milliseconds since the profile began.
  double elapsed_ms() const;

 private:
  std::chrono::steady_clock::time_point begin_;
  std::vector<KernelCall> calls_;
  Profile* outer_;
};

namespace detail {
/// The backend of a device without any profile. Throws as `backend` does.
[[gnu::visibility("hidden")]] const Backend& untimed_backend(Device device);
/// The same with every kernel timed, while a profile lives on this thread; otherwise null.
[[gnu::visibility("hidden")]] const Backend* timed_backend(Device device);
}  // namespace detail

}  // namespace linnet
