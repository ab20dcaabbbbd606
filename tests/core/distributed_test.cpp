#include <linnet/core/distributed.h>
#include <linnet/core/distributed/local_rank.h>
#include <linnet/core/distributed/transport.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include <linnet/core/build_info.h>
#include <linnet/linnet.h>

#include "tests/support/allocation_count.h"
#include "tests/support/same_bits.h"
#include "tests/support/thread_ranks.h"

using namespace linnet;
using linnet::test::run_ranks;

namespace {

/// Numbers of very different sizes, so that their sum depends on its order.
Tensor part(int64_t index, const Shape& shape, DType dtype = DType::float32) {
  Generator rng(static_cast<uint64_t>(100 + index));
  return (randn(shape, rng, dtype) * exp(randn(shape, rng, dtype) * 4)).detach();
}

/// The sum of `count` parts from `first` on in a binary tree, computed by its definition.
Tensor tree_of_parts(int64_t first, int64_t count, const Shape& shape, DType dtype = DType::float32) {
  if (count == 1) return part(first, shape, dtype);
  return tree_of_parts(first, count / 2, shape, dtype) + tree_of_parts(first + count / 2, count / 2, shape, dtype);
}

/// The first of two ranks. Its messages come late, as by MPI: also when nobody waits for them any longer.
class Late : public linnet::detail::Transport {
 public:
  struct Message {
    void* to;
    int64_t bytes;
    int tag;
    std::shared_ptr<bool> has_come = std::make_shared<bool>(false);

    void come() {
      std::fill_n(static_cast<char*>(to), bytes, 0);
      *has_come = true;
    }
  };

  explicit Late(std::vector<Message>& messages) : messages_(messages) {}

  int rank() const override { return 0; }
  int size() const override { return 2; }
  Work exchange(int, int tag, const void*, int64_t, void* received, int64_t bytes) override {
    struct Receipt : Work::Steps {
      explicit Receipt(std::shared_ptr<bool> flag) : has_come(std::move(flag)) {}
      bool advance(bool) override { return *has_come; }
      std::shared_ptr<bool> has_come;
    };
    messages_.push_back({received, bytes, tag});
    return Work(std::make_unique<Receipt>(messages_.back().has_come));
  }
  Work sum(void*, int64_t, DType) override { return {}; }
  void broadcast(void*, int64_t, int) override {}
  void all_gather(const void*, void*, int64_t) override {}
  bool barrier_within(double) override { return true; }
  void barrier() override {}
  void abort(int) override { std::terminate(); }
  void fail() override {}

 private:
  std::vector<Message>& messages_;
};

/// Two ranks, one of which has a text of more than 4 GiB.
class LongText : public Late {
 public:
  using Late::Late;
  void all_gather(const void*, void* to, int64_t bytes) override {
    REQUIRE(bytes == sizeof(int64_t));  // the sizes, and no text
    std::fill_n(static_cast<int64_t*>(to), 2, (int64_t{1} << 32) + 5);
  }
};

}  // namespace

TEST_CASE("ProcessGroup: without a launcher a program is alone, and its collectives change nothing") {
  REQUIRE_FALSE(started_by_mpi_launcher());
  ProcessGroup group;
  CHECK(group.rank() == 0);
  CHECK(group.world_size() == 1);
  Tensor x = tensor({1.5, 2.5});
  group.all_reduce(x);
  group.broadcast({x});
  group.barrier();
  CHECK(group.barrier_within(0));
  CHECK(test::same_bits(x, tensor({1.5, 2.5})));
  CHECK(group.all_gather("text") == std::vector<std::string>{"text"});
  CHECK(group.bytes_sent() == 0);
}

TEST_CASE("all_reduce: adds ranks in a tree, neighbours first, to the bit, and sends the least bytes that suffice") {
  for (const Shape& shape : {Shape{1}, Shape{2}, Shape{7}, Shape{64}, Shape{3, 5, 11}, Shape{0}, Shape{}}) {
    for (const DType dtype : {DType::float32, DType::float64}) {
      for (const int count : {1, 2, 4, 8}) {
        const Tensor expected = tree_of_parts(0, count, shape, dtype);
        run_ranks(count, [&](ProcessGroup& group) {
          Tensor x = part(group.rank(), shape, dtype);
          group.all_reduce(x);
          REQUIRE(test::same_bits(x, expected));
          if (x.numel() % count == 0) {
            REQUIRE(group.bytes_sent() == 2 * (count - 1) * x.numel() / count * size_of(dtype));
          }
        });
      }
    }
  }
}

TEST_CASE("all_reduce: a sum of parts has the same bits however many ranks have them") {
  constexpr int kParts = 8;
  const Tensor expected = tree_of_parts(0, kParts, {1000});
  const Tensor one_by_one = [] {
    Tensor sum = part(0, {1000});
    for (int i = 1; i < kParts; ++i) sum = sum + part(i, {1000});
    return sum;
  }();
  CHECK_FALSE(test::same_bits(expected, one_by_one));  // otherwise the test would prove nothing
  for (const int count : {1, 2, 4, 8}) {
    run_ranks(count, [&](ProcessGroup& group) {
      const int64_t own = kParts / count;
      Tensor x = tree_of_parts(group.rank() * own, own, {1000});
      group.all_reduce(x);
      REQUIRE(test::same_bits(x, expected));
    });
  }
}

TEST_CASE("all_reduce: several sums under way do not meet, in whatever order they are waited for") {
  run_ranks(4, [](ProcessGroup& group) {
    std::vector<Tensor> sums;
    std::vector<Work> works;
    for (int i = 0; i < 5; ++i) {
      sums.push_back(full({3 + i}, group.rank() + 10 * i, DType::float64));
      works.push_back(group.start_all_reduce(sums.back()));
    }
    for (int i = 4; i >= 0; --i) {
      if (i % 2 == 0) works[static_cast<size_t>(i)].wait();
      while (!works[static_cast<size_t>(i)].is_completed()) {
      }
      REQUIRE(test::same_bits(sums[static_cast<size_t>(i)], full({3 + i}, 6 + 40 * i, DType::float64)));
    }
  });
}

TEST_CASE("all_reduce: a sum that a rank drops goes on in its later calls") {
  const auto later_calls = {
      +[](ProcessGroup& group) { group.barrier(); },
      +[](ProcessGroup& group) { group.broadcast({zeros({1})}); },
      +[](ProcessGroup& group) { group.all_gather("text"); },
      +[](ProcessGroup& group) { group.all_reduce(zeros({1})); },
  };
  for (const auto later : later_calls) {
    run_ranks(4, [&](ProcessGroup& group) {
      Tensor x = full({1000}, group.rank());
      {
        Work sum = group.start_all_reduce(x);
        if (group.rank() > 0) sum.wait();
      }
      later(group);
      REQUIRE(test::same_bits(x, full({1000}, 6)));
    });
  }
}

TEST_CASE("all_reduce: a sum that is dropped keeps its memory until its messages have come, or for ever") {
  std::vector<Late::Message> messages;
  auto group = std::make_unique<ProcessGroup>(std::make_unique<Late>(messages));
  const auto check_memory = [&] {
    // These get the memory of the sum and of its message if it is free.
    const Tensor whole = full({1000}, 7), half = full({500}, 7);
    messages.back().come();
    CHECK(test::same_bits(whole, full({1000}, 7)));
    CHECK(test::same_bits(half, full({500}, 7)));
  };
  const auto drop = [&] { static_cast<void>(group->start_all_reduce(full({1000}, 1))); };
  drop();
  check_memory();  // the first half
  drop();          // starts the second half of the first sum
  REQUIRE(messages.size() == 3);
  messages[1].come();
  group = nullptr;
  check_memory();
}

TEST_CASE("all_reduce: tensors that are not contiguous, and sums in any order") {
  run_ranks(2, [](ProcessGroup& group) {
    const Tensor all = full({4, 3}, group.rank() + 1, DType::float64);
    Tensor column = all.narrow(1, 1, 1);
    group.all_reduce(column);
    REQUIRE(test::same_bits(column.contiguous(), full({4, 1}, 3, DType::float64)));
    REQUIRE(all.sum().item<double>() == 4 * 3 + 8 * (group.rank() + 1));
    REQUIRE_THROWS_AS(static_cast<void>(group.start_all_reduce(column)), ValueError);
    group.barrier();
    Tensor x = full({5}, group.rank() + 1, DType::float64);
    group.all_reduce(x, {.any_order = true});
    REQUIRE(test::same_bits(x, full({5}, 3, DType::float64)));
    REQUIRE_THROWS_AS(group.all_reduce(arange(2), {.any_order = true}), DTypeError);
  });
  run_ranks(3, [](ProcessGroup& group) {
    Tensor x = full({5}, 1, DType::float64);
    try {
      group.all_reduce(x);
      REQUIRE(false);
    } catch (const ValueError& error) {
      REQUIRE(std::string(error.what()).find("takes 1, 2, 4, 8, … ranks, and there are 3") != std::string::npos);
    }
    group.all_reduce(x, {.any_order = true});
    REQUIRE(test::same_bits(x, full({5}, 3, DType::float64)));
  });
}

TEST_CASE("broadcast and all_gather: from the rank that is named, and texts of any length") {
  run_ranks(4, [](ProcessGroup& group) {
    Tensor x = full({3, 2}, group.rank()), ids = full({2}, group.rank(), DType::int64);
    Tensor row = full({2, 6}, group.rank()).narrow(1, 2, 3);
    group.broadcast({x, ids, row}, 2);
    REQUIRE(test::same_bits(x, full({3, 2}, 2)));
    REQUIRE(test::same_bits(ids, full({2}, 2, DType::int64)));
    REQUIRE(test::same_bits(row.contiguous(), full({2, 3}, 2)));
    REQUIRE_THROWS_AS(group.broadcast({x}, 4), IndexError);
    const std::string own(static_cast<size_t>(3 * group.rank()), static_cast<char>('a' + group.rank()));
    REQUIRE(group.all_gather(own) == std::vector<std::string>{"", "bbb", "cccccc", "ddddddddd"});
  });
}

TEST_CASE("register_post_accumulate_grad_hook: is called after each sum, and removed with its handle") {
  Tensor w = tensor({2.0, 3.0}).set_requires_grad();
  std::vector<double> seen;
  {
    const HookHandle handle =
        register_post_accumulate_grad_hook(w, [&] { seen.push_back(w.grad().sum().item<double>()); });
    (w * 2).sum().backward();
    (w * 3).sum().backward();
    CHECK(seen == std::vector<double>{4, 10});
    HookHandle second = register_post_accumulate_grad_hook(w, [&] { w.set_grad({}); });
    w.square().sum().backward();
    CHECK_FALSE(w.grad().defined());  // the hook removed it
    second.remove();
    w.sum().backward();
    CHECK(w.grad().defined());
    CHECK(seen.size() == 4);
  }
  w.sum().backward();
  CHECK(seen.size() == 4);
  CHECK_THROWS_AS(static_cast<void>(register_post_accumulate_grad_hook(tensor({1.0}), [] {})), AutogradError);
  CHECK_THROWS_AS(static_cast<void>(register_post_accumulate_grad_hook(w * 2, [] {})), AutogradError);
}

TEST_CASE("visible_gpu: a rank's own entry of CUDA_VISIBLE_DEVICES, or its number") {
  using linnet::detail::visible_gpu;
  CHECK(visible_gpu(nullptr, 0) == "0");
  CHECK(visible_gpu(nullptr, 3) == "3");
  CHECK(visible_gpu("2,GPU-7a", 0) == "2");
  CHECK(visible_gpu("2,GPU-7a", 1) == "GPU-7a");
  CHECK(visible_gpu("5", 1) == "5");
  CHECK(visible_gpu("", 1) == "");
  CHECK_THROWS_WITH_AS(
      visible_gpu("2,3", 2),
      "CUDA_VISIBLE_DEVICES=\"2,3\" has no GPU for rank 2 of this host, counted from 0; start 2 ranks "
      "on it, or name more GPUs",
      DeviceError);
}

TEST_CASE("all_reduce: bool is refused before any message, and the group goes on") {
  for (const int count : {1, 2}) {
    run_ranks(count, [&](ProcessGroup& group) {
      REQUIRE_THROWS_AS(group.all_reduce(zeros({3}, DType::boolean)), DTypeError);
      group.barrier();
      Tensor x = full({3}, 1);
      group.all_reduce(x);
      REQUIRE(test::same_bits(x, full({3}, count)));
    });
  }
}

TEST_CASE("all_gather: a text of another rank that no message can hold is refused") {
  std::vector<Late::Message> messages;
  ProcessGroup group(std::make_unique<LongText>(messages));
  CHECK_THROWS_WITH_AS(group.all_gather("short"), doctest::Contains("a rank's string has 4294967301 bytes"),
                       ValueError);
}

TEST_CASE("all_reduce: a step that fails for want of memory and is made again adds once") {
  if (!test::allocations_are_counted("requests for memory that fail")) return;
  bool happened = true;
  for (int64_t n = 0; happened; ++n) {
    CAPTURE(n);
    std::vector<Late::Message> messages;
    messages.reserve(8);
    ProcessGroup group(std::make_unique<Late>(messages));
    const Tensor x = full({4}, 1);
    Work sum = group.start_all_reduce(x);
    std::fill_n(static_cast<float*>(messages[0].to), 2, 1.0F);
    *messages[0].has_come = true;
    {
      const test::AllocationFailure failure(n);
      try {
        static_cast<void>(sum.is_completed());
      } catch (const std::bad_alloc&) {
      } catch (const MemoryError&) {
      }
      happened = failure.happened();
    }
    static_cast<void>(sum.is_completed());
    REQUIRE(x.narrow(0, 0, 2).to_vector<float>() == std::vector<float>{2, 2});
    *messages.back().has_come = true;
    sum.wait();
  }
}

TEST_CASE("all_reduce: one that found no memory before its first message is made again with the same tag") {
  if (!test::allocations_are_counted("requests for memory that fail")) return;
  const Tensor x = full({100'000}, 1);
  bool failed = true;
  int tried = 0;  // the second calls after a first that failed
  for (int64_t n = 0; failed; ++n) {
    CAPTURE(n);
    std::vector<Late::Message> messages;
    messages.reserve(8);
    release_cached_memory();  // so that the tensor for received elements allocates
    ProcessGroup group(std::make_unique<Late>(messages));
    failed = false;
    try {
      const test::AllocationFailure failure(n);
      static_cast<void>(group.start_all_reduce(x));
    } catch (const std::bad_alloc&) {
      failed = true;
    } catch (const MemoryError&) {
      failed = true;
    }
    if (!failed || !messages.empty()) break;
    ++tried;
    static_cast<void>(group.start_all_reduce(x));
    REQUIRE(messages.front().tag == 0);
    for (Late::Message& message : messages) message.come();
  }
  CHECK(tried > 0);
}
