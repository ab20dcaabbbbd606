#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/detail/heads.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/indexing.h>
#include <linnet/ops/layers/softmax.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet::detail {

void check_heads(const Tensor& x, const char* name) {
  if (x.rank() == 4) return;
  throw ShapeError(
      fmt::format("{}{} has rank {}; [batch, heads, tokens, width] is needed", name, to_string(x.shape()), x.rank()));
}

void check_token_mask(const Tensor& mask, const char* mask_name, const char* meaning, const Tensor& x,
                      const char* name) {
  if (!mask.defined()) return;
  if (mask.dtype() != DType::boolean) {
    throw DTypeError(fmt::format("{} is {}; it must be bool, {}: ne(mask, 0) gives that", mask_name,
                                 name_of(mask.dtype()), meaning));
  }
  const Shape wanted{x.shape()[0], x.shape()[x.rank() - 2]};
  if (!(mask.shape() == wanted)) {
    throw ShapeError(fmt::format("{}{} does not fit {}{}: it must be [batch, tokens], {}", mask_name,
                                 to_string(mask.shape()), name, to_string(x.shape()), to_string(wanted)));
  }
  if (mask.device() != x.device()) {
    throw DeviceError(fmt::format("{} is on {}, {} on {}; move one with to(Device)", mask_name,
                                  name_of(mask.device()), name, name_of(x.device())));
  }
}

void check_padding_mask(const Tensor& padding_mask, const Tensor& x, const char* name) {
  check_token_mask(padding_mask, "padding_mask", "false where a token is padding", x, name);
}

void check_qkv(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask) {
  check_heads(q, "q");
  check_heads(k, "k");
  check_heads(v, "v");
  for (const int dim : {0, 1, 3}) {
    if (q.shape()[dim] == k.shape()[dim]) continue;
    const char* names[] = {"batch", "heads", "tokens", "width"};
    throw ShapeError(fmt::format("q{} and k{} differ in {} ({} ≠ {}); only the tokens may differ",
                                 to_string(q.shape()), to_string(k.shape()), names[dim], q.shape()[dim],
                                 k.shape()[dim]));
  }
  check_same_shape(v, "v", k, "k");
  check_padding_mask(padding_mask, k, "k");
}

void check_dtypes(const Tensor& q, const Tensor& k, const Tensor& v) {
  check_floating(q.dtype());
  for (const auto& [x, name] : {std::pair(&k, "k"), std::pair(&v, "v")}) {
    if (x->dtype() == q.dtype()) continue;
    throw DTypeError(
        fmt::format("q is {} and {} {}; convert one with to(DType)", name_of(q.dtype()), name, name_of(x->dtype())));
  }
}

void check_dropout(double rate, const Generator* generator) {
  if (!(rate >= 0 && rate <= 1)) throw ValueError(fmt::format("dropout is {}; it must be in [0, 1]", rate));
  if (rate > 0 && generator == nullptr) {
    throw ValueError(fmt::format("dropout {} needs a generator; set options.generator", rate));
  }
}

double attention_scale(std::optional<double> scale, int64_t width) {
  const double used = scale.value_or(width > 0 ? 1 / std::sqrt(static_cast<double>(width)) : 1);
  if (!std::isfinite(used)) throw ValueError(fmt::format("scale is {}; it must be finite", used));
  return used;
}

Tensor unseen(int64_t queries, int64_t keys, const Tensor& padding_mask, bool causal, Device device) {
  Tensor padding = padding_mask.defined() ? logical_not(padding_mask).unsqueeze(1).unsqueeze(1) : Tensor();
  if (!causal) return padding;
  const Tensor i = arange(keys - queries, keys).unsqueeze(1), j = arange(keys).unsqueeze(0);
  const Tensor future = Recording::constant(gt(j, i), device);
  return either(padding, future);
}

Tensor either(const Tensor& mask, const Tensor& other) {
  return !mask.defined() ? other : !other.defined() ? mask : logical_or(mask, other);
}

Tensor without_padding(const Tensor& x, const Tensor& padding_mask) {
  return padding_mask.defined() ? masked_fill(x, logical_not(padding_mask).unsqueeze(1).unsqueeze(-1), 0) : x;
}

Tensor masked_softmax(const Tensor& scores, const Tensor& unseen) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  return softmax(unseen.defined() ? masked_fill(scores, unseen, kNever) : scores);
}

Tensor attention_scores(const Tensor& q, const Tensor& k, std::optional<double> scale) {
  return matmul(in_computed(q), transpose(in_computed(k))) * attention_scale(scale, q.size(3));
}

Tensor softmax_weights(const Tensor& q, const Tensor& k, std::optional<double> scale, const Tensor& unseen) {
  return masked_softmax(attention_scores(q, k, scale), unseen);
}

Tensor tokens_at(const Tensor& x, const Tensor& index) {
  const Shape shape{x.size(0), index.size(2), x.size(1), x.size(3)};
  return gather_elements(x.transpose(1, 2), 1, index.transpose(1, 2).unsqueeze(-1).expand(shape)).transpose(1, 2);
}

Tensor sums_at(const Tensor& g, const Tensor& index, int64_t tokens) {
  const Tensor rows = g.transpose(1, 2).to(computed_in(g.dtype()));
  const Tensor none = zeros({g.size(0), tokens, g.size(1), g.size(3)}, rows.dtype(), g.device());
  const Tensor sums = scatter_add_elements(none, 1, index.transpose(1, 2).unsqueeze(-1).expand(rows.shape()), rows);
  return sums.to(g.dtype()).transpose(1, 2);
}

Tensor with_plain_rows(const Tensor& x) {
  const Shape& shape = x.shape();
  const int last = x.rank() - 1;
  const bool unit = shape[last] <= 1 || x.strides()[last] == 1;
  const bool apart = shape[last - 1] <= 1 || x.strides()[last - 1] >= shape[last];
  return unit && apart ? x.detach() : dense(x);
}

bool are_bfloat16(const std::vector<Tensor>& x) {
  return std::all_of(x.begin(), x.end(), [](const Tensor& each) { return each.dtype() == DType::bfloat16; });
}

Tensor attend_in_float32(const std::vector<Tensor>& x,
                         const std::function<Tensor(const std::vector<Tensor>&)>& attend) {
  // The copy is [B, N, H, D] in memory, the layout that linear maps write and read.
  const auto converted = [](const Tensor& heads, DType dtype) {
    return heads.transpose(1, 2).to(dtype).transpose(1, 2);
  };
  std::map<Node*, Tensor> known;
  std::vector<Tensor> wide;
  for (const Tensor& each : x) {
    Tensor& same = known[detail::node(each).get()];
    if (!same.defined() || !each.requires_grad()) same = converted(each, DType::float32);
    wide.push_back(same);
  }
  return converted(attend(wide), DType::bfloat16);
}

Tensor empty_heads(const Shape& shape, DType dtype, Device device) {
  const int64_t heads = shape[1], tokens = shape[2], width = shape[3];
  const Tensor memory = Tensor::empty({shape[0], tokens, heads, width}, dtype, device);
  return detail::as_strided(memory, shape, {tokens * heads * width, width, heads * width, 1}, 0);
}

namespace {

/// Whether the tensors x are adjacent views of one tensor [B, N, count, H, D], in order.
bool are_views_of_one(const std::vector<Tensor>& x) {
  const Shape& shape = x[0].shape();
  const int64_t size = shape[1] * shape[3], row = static_cast<int64_t>(x.size()) * size;
  const Strides strides{shape[2] * row, shape[3], row, 1};
  const auto* first = static_cast<const std::byte*>(detail::view(x[0]).data);
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t before = static_cast<int64_t>(i) * size * size_of(x[i].dtype());
    if (x[i].shape() != shape || x[i].strides() != strides || detail::view(x[i]).data != first + before) return false;
  }
  return true;
}

}  // namespace

std::vector<Tensor> empty_gradients(const std::vector<Tensor>& x) {
  std::vector<Tensor> gradients;
  gradients.reserve(x.size());
  if (!are_views_of_one(x)) {
    for (const Tensor& each : x) gradients.push_back(empty_heads(each.shape(), each.dtype(), each.device()));
    return gradients;
  }
  const Shape& shape = x[0].shape();
  const auto count = static_cast<int64_t>(x.size()), size = shape[1] * shape[3];
  const Tensor whole = Tensor::empty({shape[0], shape[2], count, shape[1], shape[3]}, x[0].dtype(), x[0].device());
  for (int64_t i = 0; i < count; ++i) gradients.push_back(detail::as_strided(whole, shape, x[0].strides(), i * size));
  return gradients;
}

}  // namespace linnet::detail
