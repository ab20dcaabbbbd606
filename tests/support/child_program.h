#pragma once

#include <sys/types.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/files.h"

namespace linnet::test {

/// How a program ended: its exit code, or the negative number of the signal that ended it, and what it wrote.
struct Ended {
  int code = 0;
  std::string out;
  std::string err;
};

/// One of the project's programs, or any by its whole path, running in an empty folder of its own, without a terminal
/// and without LINNET_DATA.
class ChildProgram {
 public:
  ChildProgram(const std::string& name, const std::vector<std::string>& arguments);
  ~ChildProgram();  ///< kills it if it still runs
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  /// What Ctrl-C does, or another signal that asks it to end.
  void interrupt(int signal = SIGINT) const;
  /// Ends it at once, whatever it is doing.
  void kill();
  bool running();
  /// Throws std::runtime_error when it takes longer than two minutes.
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
