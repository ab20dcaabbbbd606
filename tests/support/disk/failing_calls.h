#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <fcntl.h>

#include <doctest/doctest.h>

#include <linnet/core/error.h>

#include "tests/support/disk/file_calls.h"
#include "tests/support/disk/folder_contents.h"

/// Tests that each call that changes files can fail: an error says what to do, and the old files stay.

namespace linnet::test {

/// Whether the work may continue if the call fails. close() may fail, since files are flushed by another call, and
/// a folder that cannot be locked is used without a lock.
inline bool may_be_ignored(const FileCall& call) {
  return call.name == "close" || (call.name == "open" && (call.flags & O_DIRECTORY) != 0);
}

/// Checks that an error names a file or folder of `folder`, the reason and a remedy.
inline void check_message(const std::string& said, const std::filesystem::path& folder, int error) {
  CAPTURE(said);
  CHECK(said.find(folder.string()) != std::string::npos);
  const size_t reason = said.find(std::string(": ") + std::strerror(error) + "; ");
  CHECK(reason != std::string::npos);
}

constexpr size_t kLongestWrite = 150;  // so that a write can fail in its middle

/// Runs work in which call number `number` below `folder` fails. Holds that call (none if there were fewer) and the
/// message of the work's error.
struct OneFailure {
  std::vector<FileCall> failed;
  std::string said;

  OneFailure(const std::filesystem::path& folder, size_t number, int error, const std::function<void()>& work) {
    FileCalls calls(folder);
    calls.fail_number(number, error);
    calls.shorten_writes(kLongestWrite);
    try {
      work();
    } catch (const IoError& refused) {
      said = refused.what();
    }
    const std::vector<FileCall> all = calls.all();
    if (number < all.size()) failed = {all[number]};
  }
};

/// A piece of work that writes into a folder.
using FileWork = std::function<void(const std::filesystem::path& folder)>;

/// Makes `work` fail in each of its calls, each time in a new folder with the files that `begin` wrote and `work`
/// replaces. The work must write the same bytes each time.
inline void check_each_failure(const FileWork& begin, const FileWork& work) {
  FolderContents before, after;
  size_t calls = 0;
  {
    const TemporaryFolder folder;
    begin(folder.path());
    before = contents_of(folder.path());
    FileCalls recorded(folder.path());
    recorded.shorten_writes(kLongestWrite);
    work(folder.path());
    calls = recorded.all().size();
    after = contents_of(folder.path());
  }
  REQUIRE(calls > 4);
  const auto check_whole = [&](const FolderContents& there) {
    for (const auto& name : there.folders) CHECK(after.folders.contains(name));
    for (const auto& [name, bytes] : there.files) {
      CAPTURE(name.string());
      const auto old = before.files.find(name), made = after.files.find(name);
      CHECK(((old != before.files.end() && bytes == old->second) ||
             (made != after.files.end() && bytes == made->second)));
    }
    for (const auto& [name, bytes] : before.files) CHECK(there.files.contains(name));
  };
  for (const int error : {ENOSPC, EIO}) {
    for (size_t number = 0; number < calls; ++number) {
      const TemporaryFolder folder;
      write_contents(folder.path(), before);
      const OneFailure one(folder.path(), number, error, [&] { work(folder.path()); });
      REQUIRE(one.failed.size() == 1);
      CAPTURE(one.failed[0].name);
      CAPTURE(one.failed[0].path.string());
      check_whole(contents_of(folder.path()));
      if (one.said.empty()) {
        CHECK(may_be_ignored(one.failed[0]));
        CHECK(contents_of(folder.path()) == after);
      } else {
        check_message(one.said, folder.path(), error);
      }
      const FileCalls unflushed(folder.path());
      work(folder.path());
      CHECK(contents_of(folder.path()) == after);
    }
  }
  const TemporaryFolder folder;
  write_contents(folder.path(), before);
  FileCalls interrupted(folder.path());
  interrupted.interrupt_each();
  interrupted.shorten_writes(7);
  work(folder.path());
  CHECK(contents_of(folder.path()) == after);
  CHECK(std::ranges::count(interrupted.all(), EINTR, &FileCall::error) > 3);
}

}  // namespace linnet::test
