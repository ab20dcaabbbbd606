#include <linnet/core/build_info.h>

#include <string>

#include <doctest/doctest.h>
#include <linnet/core/device/backend.h>
#include <linnet/core/distributed.h>
#include <linnet/core/error.h>
#include <linnet/core/parallel/parallel.h>

namespace linnet::test {

TEST_CASE("build_info: one line, which says why there is no CUDA, and which MPI") {
  const std::string all = build_info();
  CAPTURE(all);
  CHECK(all.find('\n') == std::string::npos);
  for (const std::string& part : {std::string("linnet "), std::string("OpenBLAS"), describe_threads()}) {
    CAPTURE(part);
    CHECK(all.find(part) != std::string::npos);
  }
  std::string cuda;
  try {
    backend(Device::cuda);
    return;  // with a GPU, the line describes this GPU
  } catch (const DeviceError& error) {
    cuda = error.what();
  }
  // The beginning of the error's message, without its advice.
  CHECK(all == build_info(Device::cpu) + "; no CUDA: " + cuda.substr(0, cuda.find(';')) + "; " + describe_mpi());
}

}  // namespace linnet::test
