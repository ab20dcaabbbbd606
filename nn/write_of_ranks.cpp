#include <linnet/nn/write_of_ranks.h>

#include <exception>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/creation.h>

namespace linnet::nn {
namespace {

/// A tensor of a rank.
struct Listed {
  std::string name;
  DType dtype;
  std::vector<int64_t> sizes;
};

/// "dtype rank sizes… name" of each tensor, each followed by a zero byte, because no name has one.
std::string list_of(const TensorMap& tensors) {
  std::string text;
  for (const auto& [name, tensor] : tensors) {
    text += fmt::format("{} {} ", static_cast<int>(tensor.dtype()), tensor.rank());
    for (const int64_t size : tensor.shape()) text += fmt::format("{} ", size);
    text += name + '\0';
  }
  return text;
}

std::vector<Listed> read_list(const std::string& text) {
  std::vector<Listed> list;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line, '\0');) {
    std::istringstream fields(line);
    int dtype = 0;
    size_t rank = 0;
    fields >> dtype >> rank;
    Listed& listed = list.emplace_back(Listed{"", static_cast<DType>(dtype), std::vector<int64_t>(rank)});
    for (int64_t& size : listed.sizes) fields >> size;
    fields.get();
    std::getline(fields, listed.name, '\0');
  }
  return list;
}

/// Sends tensors to rank 0 one at a time, as it asks for them.
class Requests {
 public:
  Requests(ProcessGroup& group, const TensorMap& own) : group_(group), own_(own) {
    for (const std::string& text : group.all_gather(list_of(own))) lists_.push_back(read_list(text));
  }

  /// On rank 0: the tensors that it lacks.
  std::map<std::string, DeferredTensor> lacking() {
    std::map<std::string, DeferredTensor> result;
    for (size_t rank = 1; rank < lists_.size(); ++rank) {
      for (size_t i = 0; i < lists_[rank].size(); ++i) {
        const Listed& listed = lists_[rank][i];
        if (own_.contains(listed.name)) continue;
        result.try_emplace(listed.name, DeferredTensor{listed.sizes, listed.dtype, [this, rank, i, &listed] {
                                                         // Memory that is lacking is noticed before others are asked.
                                                         const Tensor place =
                                                             Tensor::empty(listed.sizes, listed.dtype);
                                                         ask(static_cast<int64_t>(rank), static_cast<int64_t>(i));
                                                         group_.broadcast({place}, static_cast<int>(rank));
                                                         return place;
                                                       }});
      }
    }
    return result;
  }
  /// On rank 0: makes `answer` return on the other ranks.
  void end() { ask(kEnd, 0); }
  /// On the other ranks: sends what rank 0 asks for until it calls `end`.
  void answer() {
    for (;;) {
      group_.broadcast({asked_});
      const std::vector<int64_t> asked = asked_.to_vector<int64_t>();
      if (asked[0] == kEnd) return;
      send(static_cast<size_t>(asked[0]), static_cast<size_t>(asked[1]));
    }
  }

 private:
  static constexpr int64_t kEnd = -1;

  void ask(int64_t rank, int64_t index) {
    asked_.copy_(tensor<int64_t>({rank, index}));
    group_.broadcast({asked_});
  }
  /// Sends a tensor of `rank` to all ranks, and returns it.
  Tensor send(size_t rank, size_t index) {
    const Listed& listed = lists_[rank][index];
    const auto source = static_cast<int>(rank);
    Tensor tensor =
        source == group_.rank() ? own_.at(listed.name).to(Device::cpu) : Tensor::empty(listed.sizes, listed.dtype);
    group_.broadcast({tensor}, source);
    return tensor;
  }

  ProcessGroup& group_;
  const TensorMap& own_;
  std::vector<std::vector<Listed>> lists_;   // of each rank
  Tensor asked_ = zeros({2}, DType::int64);  // a rank, or kEnd, and an index in its list
};

}  // namespace

void write_of_ranks(ProcessGroup& group, const std::filesystem::path& path, Safetensors content) {
  const NoGrad no_grad;
  Requests requests(group, content.tensors);
  std::exception_ptr error;
  std::string message;
  if (group.rank() == 0) {
    try {
      content.deferred = requests.lacking();
      write_safetensors(path, content);
    } catch (const std::exception& thrown) {
      error = std::current_exception();
      message = fmt::format("rank 0: {}", thrown.what());
    }
    requests.end();
  } else {
    requests.answer();
  }
  message = group.all_gather(message).front();
  if (error) std::rethrow_exception(error);
  if (!message.empty()) throw IoError(message);
}

}  // namespace linnet::nn
