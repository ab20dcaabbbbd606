#include <linnet/nn/layers/token_rows.h>

#include <algorithm>

#include <linnet/core/autograd/tape.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>

namespace linnet::nn {

Tensor TokenRows::rows() const { return room_.defined() ? room_.narrow(2, begin_, end_ - begin_) : Tensor(); }

Tensor TokenRows::append(const Tensor& row) {
  begin_ = std::max(begin_, end_ - (most_ - 1));
  if (grad_enabled()) {
    room_ = end_ > begin_ ? concat({rows(), row}, 2) : row;
    end_ -= begin_;
    begin_ = 0;
  } else {
    if (!room_.defined() || end_ == room_.size(2)) make_room(row);
    room_.narrow(2, end_, 1).copy_(row);
  }
  ++end_;
  return rows();
}

void TokenRows::make_room(const Tensor& row) {
  const int64_t count = end_ - begin_;
  Shape shape = row.shape();
  shape[2] = std::max<int64_t>(16, 2 * count);
  const Tensor larger = zeros(shape, row.dtype(), row.device());  // not `empty`, since AnomalyMode checks views of it
  if (count > 0) larger.narrow(2, 0, count).copy_(rows());
  room_ = larger;
  begin_ = 0;
  end_ = count;
}

}  // namespace linnet::nn
