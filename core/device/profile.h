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
  /// A tensor that the kernel reads or writes.
  struct Operand {
    Shape shape;      ///< sizes
    Strides strides;  ///< in elements
    DType dtype;      ///< the elements' type
  };
  std::string kernel;             ///< its name in `Backend`, with its variant if it has several: "binary add"
  std::string op;                 ///< the op or layer that called it, by its name in messages
  bool backward = false;          ///< called by a backward pass
  double begin_ms = 0;            ///< since the profile began
  double ms = 0;                  ///< its time
  int64_t bytes = 0;              ///< size of all operands
  std::vector<Operand> operands;  ///< in the order of its arguments
  std::vector<RandomKey> keys;    ///< the streams from which it draws random numbers
};

/// A guard: while it lives, each kernel that this thread calls is timed. Profiles do not nest: only the inner one
/// records the calls.
///
///     Profile profile;
///     backward(cross_entropy(model(x), y));
///     for (const KernelCall& call : profile.calls()) std::cout << call.kernel << " " << call.ms << "\n";
///
/// Cost: on a GPU, a wait after each kernel, which adds a few microseconds to its time.
class Profile {
 public:
  [[nodiscard("give it a name, as in 'Profile profile;': an unnamed guard ends at once")]] Profile();
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  /// The calls in the order in which they began.
  const std::vector<KernelCall>& calls() const { return calls_; }
  void add(KernelCall call) { calls_.push_back(std::move(call)); }  ///< appends one
  /// Milliseconds since the profile began.
  double elapsed_ms() const;

 private:
  std::chrono::steady_clock::time_point begin_;
  std::vector<KernelCall> calls_;
  Profile* outer_;
};

namespace detail {
/// The backend of a device, without timing.
///
/// Throws: as `backend` does.
[[gnu::visibility("hidden")]] const Backend& untimed_backend(Device device);
/// The backend that times every kernel, if there is a Profile on this thread; null otherwise.
[[gnu::visibility("hidden")]] const Backend* timed_backend(Device device);
}  // namespace detail

}  // namespace linnet
