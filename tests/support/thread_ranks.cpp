#include "tests/support/thread_ranks.h"

#include <linnet/core/distributed/transport.h>

#include <algorithm>
#include <barrier>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace linnet::test {
namespace {

/// Messages that were sent and not yet received, by sender, receiver and tag.
struct Mail {
  explicit Mail(int count) : size(count), meeting(count), gathered(static_cast<size_t>(count)) {}

  int size;
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<std::tuple<int, int, int>, std::deque<std::string>> messages;
  std::barrier<> meeting;
  std::vector<std::string> gathered;
};

/// Waits for a message, and copies it.
class Receipt : public Work::Steps {
 public:
  Receipt(Mail& mail, std::tuple<int, int, int> key, void* to, int64_t bytes)
      : mail_(mail), key_(key), to_(to), bytes_(static_cast<size_t>(bytes)) {}

  bool advance(bool wait) override {
    std::unique_lock lock(mail_.mutex);
    auto& messages = mail_.messages[key_];
    if (wait) mail_.arrived.wait(lock, [&] { return !messages.empty(); });
    if (messages.empty()) return false;
    if (messages.front().size() != bytes_) throw std::runtime_error("a message of another size than expected");
    std::ranges::copy(messages.front(), static_cast<char*>(to_));
    messages.pop_front();
    return true;
  }

 private:
  Mail& mail_;
  std::tuple<int, int, int> key_;
  void* to_;
  size_t bytes_;
};

class ThreadTransport : public linnet::detail::Transport {
 public:
  ThreadTransport(Mail& mail, int rank) : mail_(mail), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return mail_.size; }
  Work exchange(int partner, int tag, const void* sent, int64_t sent_bytes, void* received,
                int64_t received_bytes) override {
    {
      const std::lock_guard lock(mail_.mutex);
      mail_.messages[{rank_, partner, tag}].emplace_back(static_cast<const char*>(sent),
                                                         static_cast<size_t>(sent_bytes));
    }
    mail_.arrived.notify_all();
    return Work(std::make_unique<Receipt>(mail_, std::tuple{partner, rank_, tag}, received, received_bytes));
  }
  Work sum(void* data, int64_t count, DType dtype) override {
    if (dtype != DType::float64) throw std::runtime_error("sums of float64 alone");
    std::vector<double> all(static_cast<size_t>(count * size()));
    all_gather(data, all.data(), count * static_cast<int64_t>(sizeof(double)));
    auto* const sums = static_cast<double*>(data);
    for (int64_t i = 0; i < count; ++i) {
      sums[i] = 0;
      for (int rank = 0; rank < size(); ++rank) sums[i] += all[static_cast<size_t>(rank * count + i)];
    }
    return {};
  }
  void broadcast(void* data, int64_t bytes, int source) override {
    std::string all(static_cast<size_t>(bytes * size()), '\0');
    all_gather(data, all.data(), bytes);
    std::copy_n(all.data() + source * bytes, bytes, static_cast<char*>(data));
  }
  void all_gather(const void* from, void* to, int64_t bytes) override {
    const auto count = static_cast<size_t>(bytes);
    mail_.gathered[static_cast<size_t>(rank_)].assign(static_cast<const char*>(from), count);
    barrier();
    const auto is_alike = [&](const std::string& text) { return text.size() == count; };
    const bool alike = std::ranges::all_of(mail_.gathered, is_alike);
    for (size_t rank = 0; alike && rank < mail_.gathered.size(); ++rank) {
      std::ranges::copy(mail_.gathered[rank], static_cast<char*>(to) + rank * count);
    }
    barrier();
    if (!alike) throw std::runtime_error("ranks gather different numbers of bytes");
  }
  bool barrier_within(double) override {
    barrier();
    return true;
  }
  void barrier() override { mail_.meeting.arrive_and_wait(); }
  void abort(int) override { std::terminate(); }
  void fail() override { mail_.meeting.arrive_and_drop(); }

 private:
  Mail& mail_;
  int rank_;
};

}  // namespace

void run_ranks(int count, const std::function<void(ProcessGroup& group)>& body) {
  Mail mail(count);
  std::mutex mutex;
  std::exception_ptr error;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        ProcessGroup group(std::make_unique<ThreadTransport>(mail, rank));
        body(group);
      } catch (...) {
        const std::lock_guard lock(mutex);
        error = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace linnet::test
