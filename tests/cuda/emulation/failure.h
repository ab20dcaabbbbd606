#pragma once

namespace linnet::emulation {

/// The address of the kernel that runs, or null.
inline const void* running = nullptr;

/// Ends the program, and says in which kernel, block and thread. So does what the sanitizers find.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace linnet::emulation
