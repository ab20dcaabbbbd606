#pragma once

#include <linnet/core/device/profile.h>

namespace linnet::detail {

/// A guard: if there is a Profile on this thread, it records the guard's lifetime as the time of a call. Internal to
/// core.
class [[gnu::visibility("hidden")]] ProfiledCall {
 public:
  /// The call belongs to the running op, unless `call` names another.
  explicit ProfiledCall(KernelCall call);
  ~ProfiledCall();
  ProfiledCall(const ProfiledCall&) = delete;
  ProfiledCall& operator=(const ProfiledCall&) = delete;

 private:
  Profile* profile_;  ///< null if there is none
  KernelCall call_;
};

}  // namespace linnet::detail
