#include <string>

#include <doctest/doctest.h>

#include "tests/support/child_program.h"

using namespace linnet::test;

TEST_CASE("under a limit on address space programs start, or say at once that it is too low") {
  const auto under = [](const std::string& kib, const std::string& command) {
    return run_program("/bin/sh", {"-c", "ulimit -v " + kib + " && exec " LINNET_BIN_DIR "/" + command});
  };
  const Ended enough = under("260000", "bench --help");  // with two threads of OpenBLAS it would hang
  CHECK(enough.code == 0);
  CHECK(enough.out.find("attention") != std::string::npos);
  for (const std::string command : {"bench --help", "train_shakespeare", "mlp"}) {
    const Ended few = under("150000", command);
    CHECK(few.code == 1);
    CHECK(few.err.find(": the limit on address space (ulimit -v) is below 208 MiB") != std::string::npos);
  }
}
