#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/child_program.h"
#include "tests/support/files.h"

/// Programs in processes with limited memory or processors.

using namespace linnet::test;

TEST_CASE("under a limit on address space programs start, or say at once that it is too low") {
  const auto under = [](const std::string& kib, const std::string& command) {
    return run_program("/bin/sh", {"-c", "ulimit -v " + kib + " && exec " LINNET_BIN_DIR "/" + command});
  };
  const Ended enough = under("260000", "bench --help");  // with two threads of OpenBLAS it would hang
  CHECK(enough.code == 0);
  CHECK(enough.out.find("attention") != std::string::npos);
  for (const std::string variable : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {  // what a user set is no exception
    CHECK(run_program("/bin/sh", {"-c", "ulimit -v 260000 && " + variable +
                                            "=2 exec timeout -s KILL 60 " LINNET_BIN_DIR "/bench --help"})
              .code == 0);
  }
  for (const std::string command : {"bench --help", "train_shakespeare", "mlp"}) {
    const Ended few = under("150000", command);
    CHECK(few.code == 1);
    CHECK(few.err.find(": the limit on address space (ulimit -v) is below 208 MiB") != std::string::npos);
  }
}

// With one malloc arena, because malloc reserves 64 MiB of addresses for each further arena that busy threads need.
TEST_CASE("under a limit on address space that leaves products no memory, programs say so") {
  const TemporaryFolder folder;
  const auto under = [&](const std::string& kib) {
    return run_program(
        "/bin/sh",
        {"-c", "ulimit -v " + kib + " && LINNET_ISA=baseline MALLOC_ARENA_MAX=1 exec timeout -s KILL 60 '" +
                   LINNET_BIN_DIR "/train_text' --layers 1 --heads 2 --context 16 --batch 2 "
                                  "--steps 1 --warmup 0 --eval-batches 1 --threads 2 --out '" +
                   (folder / kib).string() + "'"});
  };
  const Ended few = under("300000");  // without a check, OpenBLAS would try to allocate memory forever
  CHECK(few.code == 1);
  CHECK(few.err.find("matrix products on 2 threads need 400 MiB of addresses, more than the limit") !=
        std::string::npos);
  CHECK(under("1200000").code == 0);
}

TEST_CASE("LINNET_ISA: a name that is not there is told from what the build has and what the machine has") {
  const Ended ended = run_program("/bin/sh", {"-c", "LINNET_ISA=v9 exec " LINNET_BIN_DIR "/bench --version"});
  CHECK(ended.code == 1);
  CHECK(ended.err.find("LINNET_ISA=v9 is not available: this build has kernels for ") != std::string::npos);
  CHECK(ended.err.find("baseline") != std::string::npos);
  CHECK(ended.err.find("; unset LINNET_ISA, or name a supported one") != std::string::npos);
}

TEST_CASE("threads: a process in a group with a quota of one processor starts one") {
  namespace fs = std::filesystem;
  // Version 1 mounts the CPU controller in a separate folder.
  const bool version1 = fs::exists("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  const fs::path group = version1 ? "/sys/fs/cgroup/cpu/linnet-test" : "/sys/fs/cgroup/linnet-test";
  const fs::path quota = group / (version1 ? "cpu.cfs_quota_us" : "cpu.max");
  std::error_code refused;
  fs::create_directory(group, refused);
  if (!fs::exists(quota, refused) || std::getenv("LINNET_NUM_THREADS") != nullptr) {
    fs::remove(group, refused);
    std::printf("SKIPPED: no control group with a quota may be made here\n");
    return;
  }
  write_bytes(quota, version1 ? "100000" : "100000 100000");
  const std::string enter = "echo $$ > '" + (group / "cgroup.procs").string() + "' && exec ";
  const Ended ended = run_program("/bin/sh", {"-c", enter + "'" LINNET_BIN_DIR "/bench' --version"});
  fs::remove(group, refused);
  CAPTURE(ended.err);
  CAPTURE(ended.out);
  CHECK(ended.out.find(", 1 threads (CPU quota), ") != std::string::npos);
}
