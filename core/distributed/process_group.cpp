#include <linnet/core/distributed.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <exception>
#include <functional>
#include <limits>
#include <list>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/distributed/transport.h>
#include <linnet/core/distributed/tree_sum.h>
#include <linnet/core/error.h>

namespace linnet {
namespace {

/// MPI guarantees tags up to 32,767.
constexpr int kTags = 32'768;

int64_t message_bytes(const Tensor& x) {
  const int64_t bytes = x.numel() * size_of(x.dtype());
  if (bytes <= std::numeric_limits<int>::max()) return bytes;
  throw ValueError(fmt::format(
      "{} bytes are too many for one message, which takes less than 2 GiB; send the tensor in parts", bytes));
}

/// A single message.
class Message : public Work::Steps {
 public:
  explicit Message(std::function<Work()> begin) : begin_(std::move(begin)) {}

  bool advance(bool wait) override {
    if (!std::exchange(has_begun_, true)) work_ = begin_();
    if (wait) work_.wait();
    return work_.is_completed();
  }

 private:
  std::function<Work()> begin_;  ///< captures the tensor, because the message needs its memory until the end
  bool has_begun_ = false;
  Work work_;
};

/// A sum of a tensor on a GPU that is computed in a copy on the CPU.
class SumByCopy : public Work::Steps {
 public:
  SumByCopy(Tensor x, Tensor copy, Work sum) : x_(std::move(x)), copy_(std::move(copy)), sum_(std::move(sum)) {}

  bool advance(bool wait) override {
    if (wait) sum_.wait();
    if (!sum_.is_completed()) return false;
    const NoGrad no_grad;
    x_.copy_(copy_);
    return true;
  }

 private:
  Tensor x_, copy_;
  Work sum_;
};

/// Operations that had not ended with their group. The list is never destroyed, as MPI may still write for them.
std::list<Work>& kept_works() {
  static std::list<Work>& works = *new std::list<Work>;
  return works;
}

}  // namespace

detail::Messages::~Messages() {
  started_.remove_if([](const Work& work) { return *work.steps_ == nullptr; });
  if (started_.empty()) return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::list<Work>& kept = kept_works();
  kept.splice(kept.end(), started_);
}

Work detail::Messages::start(std::unique_ptr<Work::Steps> steps) {
  advance_dropped(false);
  Work work(std::move(steps));
  started_.push_back(work);
  work.is_completed();  // starts the operation
  return work;
}

void detail::Messages::advance_dropped(bool wait) {
  started_.remove_if([wait](Work& work) {
    const bool is_dropped = work.steps_.use_count() == 1;
    if (is_dropped && wait) work.wait();
    return is_dropped ? work.is_completed() : *work.steps_ == nullptr;
  });
}

bool Work::is_completed() {
  if (steps_ && *steps_ && (*steps_)->advance(false)) steps_->reset();
  return !steps_ || !*steps_;
}

void Work::wait() {
  if (!steps_ || !*steps_) return;
  (*steps_)->advance(true);
  steps_->reset();
}

ProcessGroup::ProcessGroup(Where where) : exceptions_(std::uncaught_exceptions()) {
  const Call call("ProcessGroup", where);
  transport_ = detail::mpi_transport();
  read_size();
}

ProcessGroup::ProcessGroup(std::unique_ptr<detail::Transport> transport)
    : transport_(std::move(transport)), exceptions_(std::uncaught_exceptions()) {
  read_size();
}

void ProcessGroup::read_size() {
  if (!transport_) return;
  rank_ = transport_->rank();
  world_size_ = transport_->size();
}

ProcessGroup::~ProcessGroup() {
  if (!transport_ || std::uncaught_exceptions() <= exceptions_) return;
  transport_->fail();
  if (gpu_messages_ && gpu_messages_->messages) gpu_messages_->messages->fail();
}

const detail::GpuMessages& ProcessGroup::gpu_messages() {
  if (!gpu_messages_) gpu_messages_ = std::make_unique<detail::GpuMessages>(detail::gpu_messages(*this));
  return *gpu_messages_;
}

detail::Messages* ProcessGroup::messages_of(Device device) {
  return device == Device::cpu ? transport_.get() : gpu_messages().messages.get();
}

std::string ProcessGroup::describe_gpu_messages() {
  return transport_ ? gpu_messages().description : "a single process sends none";
}

void ProcessGroup::barrier() {
  if (!transport_) return;
  transport_->advance_dropped(true);
  transport_->barrier();
}

bool ProcessGroup::barrier_within(double seconds) { return !transport_ || transport_->barrier_within(seconds); }

void ProcessGroup::broadcast(const std::vector<Tensor>& tensors, int source, Where where) {
  const Call call("broadcast", where);
  if (source < 0 || source >= world_size_) {
    throw IndexError(fmt::format("there is no rank {}; the ranks are 0 to {}", source, world_size_ - 1));
  }
  if (transport_) transport_->advance_dropped(true);
  const NoGrad no_grad;
  for (Tensor tensor : tensors) {
    const int64_t bytes = message_bytes(tensor);
    if (!transport_) continue;
    detail::Messages* const direct = messages_of(tensor.device());
    Tensor message = tensor.detach();
    if (direct == nullptr) {
      message = rank_ == source ? message.to(Device::cpu) : Tensor::empty(tensor.shape(), tensor.dtype());
    }
    message = message.contiguous();  // the tensor itself if it is contiguous
    detail::Messages* const way = direct != nullptr ? direct : transport_.get();
    const auto begin = [way, message, bytes, source]() -> Work {
      way->broadcast(detail::view(message).data, bytes, source);
      return {};
    };
    way->start(std::make_unique<Message>(begin)).wait();
    if (rank_ == source) continue;
    if (detail::view(message).data == detail::view(tensor).data) {
      detail::bump_version(tensor);
    } else {
      tensor.copy_(message);
    }
  }
}

std::vector<std::string> ProcessGroup::all_gather(std::string_view text) {
  if (!transport_) return {std::string(text)};
  transport_->advance_dropped(true);
  const auto count = static_cast<size_t>(world_size_);
  const auto size = static_cast<int64_t>(text.size());
  std::vector<int64_t> sizes(count);
  transport_->all_gather(&size, sizes.data(), sizeof size);
  const auto longest = static_cast<size_t>(*std::ranges::max_element(sizes));
  if (longest > static_cast<size_t>(std::numeric_limits<int>::max())) {
    throw ValueError(fmt::format("a rank's string has {} bytes; a message takes less than 2 GiB", longest));
  }
  std::string padded(text), all(count * longest, '\0');
  padded.resize(longest);
  transport_->all_gather(padded.data(), all.data(), static_cast<int64_t>(longest));
  std::vector<std::string> texts;
  texts.reserve(count);
  for (size_t i = 0; i < count; ++i) texts.push_back(all.substr(i * longest, static_cast<size_t>(sizes[i])));
  return texts;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): by value because it is written to, as in all_reduce
Work ProcessGroup::start_all_reduce(Tensor x, const AllReduceOptions& options, Where where) {
  const Call call("all_reduce", where);
  message_bytes(x);
  if (!x.is_contiguous()) throw ValueError("the tensor must be contiguous while its sum is under way");
  if (x.dtype() == DType::boolean) throw DTypeError("sums are of numbers, not of bool; use to(DType::int32)");
  if (options.any_order && x.dtype() != DType::float32 && x.dtype() != DType::float64) {
    throw DTypeError(fmt::format("sums in any order are of float32 or float64, not of {}", name_of(x.dtype())));
  }
  if (!options.any_order && !std::has_single_bit(static_cast<unsigned>(world_size_))) {
    throw ValueError(
        fmt::format("a sum in a fixed order takes 1, 2, 4, 8, … ranks, and there are {}; start another "
                    "number of them, or sum in any order",
                    world_size_));
  }
  if (!transport_ || x.numel() == 0) return {};
  detail::Messages* const messages = messages_of(x.device());
  if (messages == nullptr) {
    const Tensor copy = x.detach().to(Device::cpu);
    Work sum = start_all_reduce(copy, options, where);
    return Work(std::make_unique<SumByCopy>(x.detach(), copy, std::move(sum)));
  }
  detail::bump_version(x);
  if (options.any_order) {
    const auto begin = [messages, x] { return messages->sum(detail::view(x).data, x.numel(), x.dtype()); };
    return messages->start(std::make_unique<Message>(begin));
  }
  auto sum = std::make_unique<TreeSum>(*messages, x, tag_, bytes_sent_);
  tag_ = (tag_ + 1) % kTags;  // afterwards: a call that fails for want of memory is made again with its tag
  return messages->start(std::move(sum));
}

void ProcessGroup::all_reduce(Tensor x, const AllReduceOptions& options, Where where) {
  const NoGrad no_grad;
  if (transport_) transport_->advance_dropped(true);
  const Tensor sum = x.detach().contiguous();
  start_all_reduce(sum, options, where).wait();
  if (!x.is_contiguous()) x.copy_(sum);
}

void ProcessGroup::abort(int code) {
  if (transport_) transport_->abort(code);
  std::_Exit(code);
}

int detail::launched_processes() {
  // The variables of Open MPI; of MPICH, Intel MPI and Slurm.
  for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const char* const size = std::getenv(name)) return std::atoi(size);
  }
  return 0;
}

bool started_by_mpi_launcher() {
  const int processes = detail::launched_processes();
  return processes > 0 ? processes > 1 : std::getenv("PMIX_RANK") != nullptr;  // only MPI can ask PMIx for the number
}

}  // namespace linnet
