#pragma once

namespace linnet::emulation {

/// The address of the kernel that runs, or null.
inline const void* running = nullptr;

/// Ends the program, and prints the kernel, block and thread. Reports of the sanitizers print these too.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace linnet::emulation
