#pragma once

#include <linnet/core/device/profile.h>

namespace linnet::detail {

/// A guard: the profile that lives on this thread, if any, gets the time of this block as that of a call. Internal to
/// core.
class [[gnu::visibility("hidden")]] ProfiledCall {
 public:
  /// Of the op that is under way, unless `call` names another.
  explicit ProfiledCall(KernelCall call);
  ~ProfiledCall();
  ProfiledCall(const ProfiledCall&) = delete;
  ProfiledCall& operator=(const ProfiledCall&) = delete;

 private:
  Profile* profile_;  ///< null where none lives
  KernelCall call_;
};

}  // namespace linnet::detail
