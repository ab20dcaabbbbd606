#include <linnet/core/distributed/tree_sum.h>

#include <bit>
#include <utility>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/device/kernel_names.h>

namespace linnet {

TreeSum::TreeSum(detail::Messages& messages, const Tensor& x, int tag, std::shared_ptr<int64_t> sent)
    : messages_(messages),
      x_(x.detach().view({x.numel()})),
      received_(Tensor::empty({(x.numel() + 1) / 2}, x.dtype(), x.device())),
      tag_(tag),
      levels_(std::countr_zero(static_cast<unsigned>(messages.size()))),
      sent_(std::move(sent)),
      parts_{{0, x.numel()}} {
  parts_.reserve(static_cast<size_t>(levels_) + 1);  // a step that fails for want of memory would add twice
}

bool TreeSum::advance(bool wait) {
  const NoGrad no_grad;
  while (!is_done()) {
    if (!is_under_way_) begin_step();
    if (wait) exchange_.wait();
    if (!exchange_.is_completed()) return false;
    end_step();
  }
  return true;
}

std::pair<TreeSum::Part, TreeSum::Part> TreeSum::halves() const {
  const auto [begin, count] = parts_[static_cast<size_t>(bit())];
  const Part lower{begin, count / 2}, upper{begin + count / 2, count - count / 2};
  const bool has_upper = (messages_.rank() >> bit() & 1) != 0;
  return has_upper ? std::pair{upper, lower} : std::pair{lower, upper};
}

void TreeSum::begin_step() {
  const auto [own, others] = halves();
  const Tensor sent = elements(x_, is_halving() ? others : own);
  const Tensor received = is_halving() ? elements(received_, {0, own.count}) : elements(x_, others);
  const int64_t size = size_of(x_.dtype()), sent_bytes = sent.numel() * size;
  exchange_ = messages_.exchange(messages_.rank() ^ 1 << bit(), tag_, detail::view(sent).data, sent_bytes,
                                 detail::view(received).data, received.numel() * size);
  *sent_ += sent_bytes;
  is_under_way_ = true;
}

void TreeSum::end_step() {
  if (is_halving()) {
    const Part own = halves().first;
    const Tensor sum = elements(x_, own);
    backend(sum).binary(Binary::add, detail::view(sum), detail::view(sum), detail::view(received_));
    parts_.push_back(own);
  }
  is_under_way_ = false;
  ++step_;
}

}  // namespace linnet
