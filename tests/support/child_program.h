#pragma once

#include <sys/types.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/files.h"

namespace linnet::test {

/// The exit code of a program, or the negative number of the signal that ended it, and its output.
struct Ended {
  int code = 0;
  std::string out;
  std::string err;
};

/// A running program, either one of the project's by its name or any other by its path. It runs in a new empty
/// folder, without a terminal and without LINNET_DATA.
class ChildProgram {
 public:
  ChildProgram(const std::string& name, const std::vector<std::string>& arguments);
  ~ChildProgram();  ///< kills it if it still runs
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  /// Sends SIGINT, as Ctrl-C does, or another signal.
  void interrupt(int signal = SIGINT) const;
  /// Ends it at once with SIGKILL.
  void kill();
  bool running();
  pid_t pid() const { return pid_; }
  /// Waits for its end. Throws std::runtime_error after two minutes.
  Ended wait();

 private:
  TemporaryFolder folder_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool reaped_ = false;
};

/// Runs a program to its end.
Ended run_program(const std::string& name, const std::vector<std::string>& arguments);

}  // namespace linnet::test
