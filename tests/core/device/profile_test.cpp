#include <linnet/core/device/profile.h>

#include <new>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/core/random/generator.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/layers/activation.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/support/allocation_count.h"

namespace linnet::test {

TEST_CASE("Profile: every kernel that a step calls, with its op, its bytes and its operands") {
  const Tensor x = ones({3, 4}), weight = ones({2, 4}).set_requires_grad();
  std::vector<KernelCall> calls;
  {
    const Profile profile;
    const Tensor y = gelu(linear(x, weight));
    CHECK(profile.calls().size() == 2);
    backward(sum(y));
    calls = profile.calls();
  }
  REQUIRE(calls.size() > 4);
  CHECK(calls[0].kernel == "gemm");
  CHECK(calls[0].op == "linear");
  CHECK_FALSE(calls[0].backward);
  CHECK(calls[0].bytes == 4 * (3 * 2 + 3 * 4 + 4 * 2));
  CHECK(calls[0].operands[0].shape == Shape{1, 3, 2});
  CHECK(calls[0].ms >= 0);
  CHECK(calls[1].kernel == "unary gelu");
  CHECK(calls[1].begin_ms >= calls[0].begin_ms + calls[0].ms);
  CHECK(calls[2].kernel == "reduce sum");
  const KernelCall& last = calls.back();
  CHECK(last.kernel == "gemm");
  CHECK(last.op == "linear");
  CHECK(last.backward);
}

TEST_CASE("Profile: broadcast operands count once") {
  const Profile profile;
  add(ones({100, 4}), ones({4}));
  CHECK(profile.calls().back().kernel == "binary add");
  CHECK(profile.calls().back().bytes == 4 * (400 + 400 + 4));
}

TEST_CASE("Profile: nothing is timed before or after one, and an inner one takes over") {
  ones({2});
  const Profile outer;
  {
    const Profile inner;
    ones({2});
    CHECK(inner.calls().size() == 1);
  }
  CHECK(outer.calls().empty());
  ones({2});
  CHECK(outer.calls().size() == 1);
}

TEST_CASE("Profile: results are those without it") {
  Generator a(1), b(1);
  const auto run = [](Generator& rng) { return matmul(randn({5, 6}, rng), randn({6, 7}, rng)).to_vector<float>(); };
  const std::vector<float> plain = run(a);
  const Profile profile;
  CHECK(run(b) == plain);
}

TEST_CASE("Profile: a call that it has no memory to list ends no program") {
  if (!allocations_are_counted("requests for memory that fail")) return;
  const Tensor x = ones({2});
  bool happened = true;
  int64_t n = 0;
  for (; happened; ++n) {
    CAPTURE(n);
    const Profile profile;
    std::optional<Tensor> y;
    {
      const AllocationFailure failure(n);
      try {
        y = x.neg();
      } catch (const std::bad_alloc&) {
      } catch (const MemoryError&) {
      }
      happened = failure.happened();
    }
    if (y) CHECK(y->to_vector<float>() == std::vector<float>{-1, -1});
    if (!happened) CHECK(profile.calls().size() == 1);
  }
  CHECK(n > 2);
}

}  // namespace linnet::test
