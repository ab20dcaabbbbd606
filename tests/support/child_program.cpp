#include "tests/support/child_program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace linnet::test {
namespace {

constexpr std::chrono::minutes kLimit{2};  // the longest that wait() waits

/// The strings as posix_spawn takes them: pointers, and a null pointer at the end.
std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// This process's environment without LINNET_DATA, so that a program finds only the data that a test gives it.
std::vector<std::string> environment() {
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string(*entry).starts_with("LINNET_DATA=")) kept.emplace_back(*entry);
  }
  return kept;
}

}  // namespace

ChildProgram::ChildProgram(const std::string& name, const std::vector<std::string>& arguments) {
  const std::string path = std::filesystem::path(LINNET_BIN_DIR) / name;
  std::vector<std::string> argv{path};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  std::vector<std::string> env = environment();

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder_.path().c_str());
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "stdout", O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "stderr", O_WRONLY | O_CREAT, 0600);
  const int error =
      posix_spawn(&pid_, path.c_str(), &actions, nullptr, pointers_to(argv).data(), pointers_to(env).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot run " + path + ": " + std::strerror(error));
}

ChildProgram::~ChildProgram() {
  if (!running()) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, &status_, 0);
}

void ChildProgram::interrupt(int signal) const { ::kill(pid_, signal); }

void ChildProgram::kill() {
  if (running()) ::kill(pid_, SIGKILL);
}

bool ChildProgram::running() {
  if (!reaped_) reaped_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return !reaped_;
}

Ended ChildProgram::wait() {
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  while (running()) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("the program did not end within 2 minutes");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return {.code = WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_),
          .out = read_bytes(folder_ / "stdout"),
          .err = read_bytes(folder_ / "stderr")};
}

Ended run_program(const std::string& name, const std::vector<std::string>& arguments) {
  return ChildProgram(name, arguments).wait();
}

}  // namespace linnet::test
