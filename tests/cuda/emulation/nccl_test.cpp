#include <deque>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/core/autograd/recording.h>
#include <linnet/core/device/backend.h>
#include <linnet/core/distributed.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>

#include "control.h"
#include "tests/support/gpu.h"
#include "tests/support/same_bits.h"
#include "tests/support/thread_ranks.h"
#include "tests/support/values.h"

/// Messages between GPUs by NCCL, in another stream than that of the kernels.

namespace linnet::emulation {
namespace {

using linnet::test::run_ranks, linnet::test::same_bits;

constexpr int kInvalidUsage = 5;

Tensor part(int rank, DType dtype = DType::float32) {
  return (test::uniform({1001}, static_cast<uint64_t>(rank)) * 1000).to(dtype);
}

/// (0 + 1) + (2 + 3)
Tensor tree(int ranks) {
  const Tensor pair = part(0) + part(1);
  return ranks == 2 ? pair : pair + (part(2) + part(3));
}

bool is_nccl(ProcessGroup& group) { return group.describe_gpu_messages() == "NCCL 2.27.3"; }

/// Delays the messages of two ranks, calls `body(group)` on each, and then lets the messages arrive. Whether the
/// tensors that `body` returns, which are all 7, are unchanged.
bool stays(const std::function<Tensor(ProcessGroup& group)>& body) {
  backend(Device::cuda);  // makes the stream of the kernels
  const int first = streams_made();
  bool same[2] = {};
  run_ranks(2, [&](ProcessGroup& group) {
    REQUIRE(is_nccl(group));  // makes the streams of the messages
    std::deque<Late> late;
    group.barrier();
    if (group.rank() == 0) {
      for (const int messages : {first, first + 1}) late.emplace_back(messages);
    }
    group.barrier();
    const Tensor x = body(group);
    group.barrier();
    late.clear();
    group.barrier();
    same[group.rank()] = same_bits(x.to(Device::cpu), full(x.shape(), 7));
    group.barrier();
  });
  return same[0] && same[1];
}

/// How the streams of kernels and of messages behave.
struct Streams {
  bool kernels_late = false, messages_late = false;
  bool kernels_impatient = false, messages_impatient = false;
};

/// Sums results of kernels over two ranks, and uses the sums in further kernels. Whether both ranks have the right
/// numbers.
bool sums_are_right(const Streams& do_what) {
  backend(Device::cuda);  // makes the stream of the kernels
  const int first = streams_made();
  bool right[2] = {};
  run_ranks(2, [&](ProcessGroup& group) {
    REQUIRE(is_nccl(group));  // makes the streams of the messages
    std::deque<Late> late;
    std::deque<Impatient> impatient;
    group.barrier();
    if (group.rank() == 0) {
      if (do_what.kernels_late) late.emplace_back(kKernels);
      if (do_what.kernels_impatient) impatient.emplace_back(kKernels);
      for (const int messages : {first, first + 1}) {
        if (do_what.messages_late) late.emplace_back(messages);
        if (do_what.messages_impatient) impatient.emplace_back(messages);
      }
    }
    group.barrier();
    const Tensor x = part(group.rank()).to(Device::cuda) * 2;
    group.all_reduce(x);
    const Tensor y = x * 3;
    right[group.rank()] = same_bits(y.to(Device::cpu), tree(2) * 2 * 3);
    group.barrier();
  });
  return right[0] && right[1];
}

}  // namespace

TEST_CASE("gpu: emulation: NCCL sums in the tree of the CPU, in any order, and broadcasts") {
  for (const int ranks : {2, 4}) {
    run_ranks(ranks, [&](ProcessGroup& group) {
      REQUIRE(is_nccl(group));
      const Tensor x = part(group.rank()).to(Device::cuda);
      group.all_reduce(x);
      REQUIRE(same_bits(x.to(Device::cpu), tree(ranks)));
      REQUIRE(group.bytes_sent() >= 2 * (ranks - 1) * 1001 / ranks * 4);
      const Tensor transposed = part(group.rank()).narrow(0, 0, 1000).view({20, 50}).to(Device::cuda).transpose(0, 1);
      group.broadcast({transposed}, ranks - 1);
      REQUIRE(same_bits(transposed.to(Device::cpu).transpose(0, 1).contiguous(),
                        part(ranks - 1).narrow(0, 0, 1000).view({20, 50})));
      const Tensor sum = part(group.rank(), DType::float64).to(Device::cuda);
      group.all_reduce(sum, {.any_order = true});
      REQUIRE(sum.to_vector<double>()[7] == doctest::Approx(tree(ranks).to_vector<double>()[7]).epsilon(1e-6));
    });
  }
}

TEST_CASE("gpu: emulation: sums of NCCL are right however late its stream or the kernels' is") {
  CHECK(sums_are_right({}));
  CHECK(sums_are_right({.kernels_late = true}));
  CHECK(sums_are_right({.messages_late = true}));
  CHECK(sums_are_right({.kernels_late = true, .messages_late = true}));
}

TEST_CASE("gpu: emulation: messages of NCCL wait for kernels, and kernels for messages") {
  if (test::waits_for_kernels()) return;
  CHECK_FALSE(sums_are_right({.kernels_late = true, .messages_impatient = true}));
  CHECK_FALSE(sums_are_right({.messages_late = true, .kernels_impatient = true}));
}

TEST_CASE("gpu: emulation: where NCCL fails on a rank, tensors go by way of the CPU, with the reason") {
  for (const char* const function : {"ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRank"}) {
    CAPTURE(function);
    const int ranks = function == std::string("ncclGetUniqueId") ? 1 : 2;  // that call
    for (int i = 0; i < ranks; ++i) fail_next(function, kInvalidUsage);
    run_ranks(2, [&](ProcessGroup& group) {
      const std::string description = group.describe_gpu_messages();
      REQUIRE(description.find("NCCL failed in ") == 0);
      REQUIRE(description.find("(emulated); NCCL_DEBUG=WARN makes it say why") != std::string::npos);
      const Tensor x = part(group.rank()).to(Device::cuda);
      group.all_reduce(x);
      REQUIRE(same_bits(x.to(Device::cpu), tree(2)));
      group.broadcast({x});
      REQUIRE(same_bits(x.to(Device::cpu), tree(2)));
      REQUIRE(group.describe_gpu_messages() == description);
    });
  }
}

TEST_CASE("gpu: emulation: a sum that NCCL refuses is an error") {
  for (int i = 0; i < 2; ++i) fail_next("ncclGroupEnd", kInvalidUsage);
  run_ranks(2, [](ProcessGroup& group) {
    Tensor x = part(group.rank()).to(Device::cuda);
    REQUIRE_THROWS_WITH_AS(group.all_reduce(x), doctest::Contains("NCCL failed in an exchange (emulated)"),
                           DeviceError);
    group.barrier();      // each rank has had its failure
    group.all_reduce(x);  // works again
    REQUIRE(same_bits(x.to(Device::cpu), tree(2)));
  });
}

TEST_CASE("gpu: emulation: a tensor that is dropped during its sum keeps its memory until the sum has ended") {
  for (const bool any_order : {true, false}) {
    CHECK(stays([&](ProcessGroup& group) {
      Work sum = group.start_all_reduce(part(group.rank()).to(Device::cuda), {.any_order = any_order});
      const Tensor other = full({1001}, 7, DType::float32, Device::cuda);
      sum.wait();
      return other;
    }));
  }
}

TEST_CASE("gpu: emulation: a recorded function may wait for a sum that was started before it, or drop it") {
  for (const bool drops : {false, true}) {
    run_ranks(2, [&](ProcessGroup& group) {
      const Tensor x = part(group.rank()).to(Device::cuda);
      Work sum = group.start_all_reduce(x);
      group.barrier();
      if (group.rank() == 0) {
        int calls = 0;
        Recording twice(Device::cuda, nullptr, [&](const std::vector<Tensor>& in) {
          if (++calls == 2) {  // the call that records
            if (!drops) sum.wait();
            sum = Work();
          }
          return std::vector{in[0] * 2};
        });
        for (int call = 0; call < 3; ++call) {
          REQUIRE(same_bits(twice({part(call)})[0].to(Device::cpu), part(call) * 2));
        }
        REQUIRE(calls == (test::waits_for_kernels() ? 3 : 2));
      }
      group.barrier();
      if (group.rank() == 1) sum.wait();
      REQUIRE(same_bits(x.to(Device::cpu), tree(2)));
      group.barrier();
    });
  }
}

TEST_CASE("gpu: emulation: messages before one that fails keep their memory until they have come") {
  // The first message of both ranks succeeds, and the second fails.
  for (const int status : {0, 0, kInvalidUsage, kInvalidUsage}) fail_next("ncclGroupEnd", status);
  CHECK(stays([](ProcessGroup& group) {
    REQUIRE_THROWS_AS(group.all_reduce(part(group.rank()).to(Device::cuda)), DeviceError);
    return full({501}, 7, DType::float32, Device::cuda);  // as large as the memory that the first message wrote to
  }));
}

TEST_CASE("gpu: emulation: a sum that is dropped on a GPU that has failed does not end the program") {
  run_ranks(2, [](ProcessGroup& group) {
    const Tensor x = part(group.rank()).to(Device::cuda);
    Work sum = group.start_all_reduce(x);
    group.barrier();
    if (group.rank() == 0) {
      fail_next("cudaStreamWaitEvent", cudaErrorIllegalAddress);
      sum = Work();
    }
    group.barrier();
    sum.wait();
  });
}

}  // namespace linnet::emulation
