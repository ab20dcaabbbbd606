#include <linnet/nn/layers/embedding.h>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/nn/init.h>
#include <linnet/ops/array/indexing.h>

namespace linnet::nn {

Embedding::Embedding(Module& parent, std::string name, int64_t count, int64_t width)
    : Module(parent, std::move(name), fmt::format("Embedding {}×{}", count, width)) {
  if (count < 1 || width < 1) throw ValueError(fmt::format("{}: sizes must be at least 1", label()));
  weight_ = parameter("weight", Tensor::empty({count, width}, dtype(), device()));
  init::normal_(weight_, generator());
}

Tensor Embedding::operator()(const Tensor& ids, Where where) const {
  const Call call(label(), where);
  return embedding(weight_, ids);
}

}  // namespace linnet::nn
