#include <linnet/core/parallel/cpu_quota.h>

#include <string>

#include <doctest/doctest.h>

#include "tests/support/files.h"

using namespace linnet;
using namespace linnet::test;

namespace {

/// Writes files of a tree of control groups into a folder, which the tests use as the root of the file system.
class Machine {
 public:
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write_bytes(folder_ / name, text);
  }
  /// Version 2, mounted from `root` on, with the process in `group`.
  void version2(const std::string& group, const std::string& root = "/") const {
    write("proc/self/cgroup", "0::" + group + "\n");
    write("proc/self/mountinfo", "24 23 0:22 / /proc rw - proc proc rw\n30 23 0:26 " + root +
                                     " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  /// Version 1, with the CPU controller among others.
  void version1(const std::string& group, const std::string& root = "/") const {
    write("proc/self/cgroup", "5:cpuset:/elsewhere\n4:cpu,cpuacct:" + group + "\n0::/\n");
    write("proc/self/mountinfo", "32 31 0:29 " + root +
                                     " /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
                                     "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
  }
  std::optional<double> quota() const { return cpu_quota(folder_.path()); }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("cpu_quota: version 2, of the group itself and of those above") {
  const Machine machine;
  CHECK_FALSE(machine.quota());
  machine.version2("/user/job");
  CHECK_FALSE(machine.quota());
  machine.write("sys/fs/cgroup/user/job/cpu.max", "max 100000\n");
  CHECK_FALSE(machine.quota());
  machine.write("sys/fs/cgroup/user/cpu.max", "150000 100000\n");
  CHECK(machine.quota() == 1.5);
  machine.write("sys/fs/cgroup/user/job/cpu.max", "400000 100000\n");
  CHECK(machine.quota() == 1.5);
  machine.write("sys/fs/cgroup/user/job/cpu.max", "25000 50000\n");
  CHECK(machine.quota() == 0.5);
  machine.write("sys/fs/cgroup/cpu.max", "10000 100000\n");
  CHECK(machine.quota() == 0.1);
}

TEST_CASE("cpu_quota: version 1, where the CPU controller is mounted") {
  const Machine machine;
  machine.version1("/docker/abc");
  machine.write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n");
  machine.write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(machine.quota());
  machine.write("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "200000\n");
  CHECK_FALSE(machine.quota());  // a period is missing
  machine.write("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
  CHECK(machine.quota() == 2);
  machine.write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "100000\n");
  CHECK(machine.quota() == 1);
}

TEST_CASE("cpu_quota: a container that sees its own group as the root") {
  const Machine machine;
  machine.version1("/docker/abc", "/docker/abc");
  machine.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
  machine.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(machine.quota() == 3);
  machine.version1("/somewhere/else", "/docker/abc");
  CHECK(machine.quota() == 3);
  machine.version2("/");
  machine.write("sys/fs/cgroup/cpu.max", "70000 100000");
  CHECK(machine.quota() == 0.7);
}

TEST_CASE("cpu_quota: what is not as it should be counts as no quota") {
  const Machine machine;
  machine.version2("/");
  for (const char* text : {"", "max", "-1 100000", "0 100000", "100000 0", "1e5x 100000", "100000 100000 100000"}) {
    CAPTURE(text);
    machine.write("sys/fs/cgroup/cpu.max", text);
    CHECK_FALSE(machine.quota());
  }
  machine.write("proc/self/cgroup", "nonsense\n:\n0:\n");
  machine.write("proc/self/mountinfo", "1 2 3\n- - - -\n\n");
  CHECK_FALSE(machine.quota());
}
