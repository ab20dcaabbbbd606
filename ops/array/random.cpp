#include <linnet/ops/array/random.h>

#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/detail/arguments.h>

namespace linnet {
namespace {

void check_drawn(DType dtype) {
  if (is_floating(dtype)) return;
  throw DTypeError(fmt::format("dtype must be a floating one, not {}; randint draws integers", name_of(dtype)));
}

/// Dropout with the mask of `key`. It is linear in x, so its backward is the same op on the gradient.
Tensor dropout_with_key(const Tensor& x, double rate, RandomKey key, Where where) {
  Op op("dropout", where, {x});
  op.floating_dtype();
  Tensor out = Tensor::empty(x.shape(), x.dtype(), x.device());
  const Tensor dense = detail::dense(x);
  backend(out).dropout(detail::view(out), detail::view(dense), rate, key);
  return op.record(out, [rate, key](const Tensor& g) { return Grads{dropout_with_key(g, rate, key, Where{})}; });
}

}  // namespace

Tensor rand(const Shape& shape, Generator& generator, DType dtype, Device device, Where where) {
  const Call call("rand", where);
  check_drawn(dtype);
  Tensor out = Tensor::empty(shape, dtype, device);
  backend(out).uniform(detail::view(out), generator.next());
  return out;
}

Tensor randn(const Shape& shape, Generator& generator, DType dtype, Device device, Where where) {
  const Call call("randn", where);
  check_drawn(dtype);
  Tensor out = Tensor::empty(shape, dtype, device);
  backend(out).normal(detail::view(out), generator.next());
  return out;
}

Tensor rand_like(const Tensor& x, Generator& generator, Where where) {
  const Call call("rand_like", where);
  return rand(x.shape(), generator, x.dtype(), x.device());
}

Tensor randn_like(const Tensor& x, Generator& generator, Where where) {
  const Call call("randn_like", where);
  return randn(x.shape(), generator, x.dtype(), x.device());
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, Generator& generator, DType dtype, Device device,
               Where where) {
  const Call call("randint", where);
  if (high <= low) throw ValueError(fmt::format("high must be above low; low is {}, high {}", low, high));
  // Unsigned, because the difference of two int64 may exceed an int64.
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  if (range > uint64_t{1} << 32) {
    throw ValueError(fmt::format("high - low must be at most 2^32; low is {}, high {}", low, high));
  }
  if (!is_integer(dtype)) {
    throw DTypeError(fmt::format("dtype must be int32 or int64, not {}; convert with to(DType)", name_of(dtype)));
  }
  using Int32 = std::numeric_limits<int32_t>;
  if (dtype == DType::int32 && (low < Int32::min() || high - 1 > Int32::max())) {
    throw ValueError(fmt::format("int32 holds numbers from {} to {}; low is {}, high {}: use int64", Int32::min(),
                                 Int32::max(), low, high));
  }
  Tensor out = Tensor::empty(shape, dtype, device);
  backend(out).random_integers(detail::view(out), low, static_cast<int64_t>(range), generator.next());
  return out;
}

Tensor randperm(int64_t n, Generator& generator, Where where) {
  const Call call("randperm", where);
  if (n < 0 || n > int64_t{1} << 32) throw ValueError(fmt::format("n must be from 0 to 2^32, not {}", n));
  Tensor out = Tensor::empty({n}, DType::int64);
  const std::span<int64_t> order = out.mutable_data<int64_t>();
  std::iota(order.begin(), order.end(), 0);
  // Fisher & Yates' shuffle: word i chooses the element for place i among those that have no place yet.
  const RandomKey key = generator.next();
  for (int64_t i = n - 1; i > 0; --i) {
    const uint64_t chosen =
        (uint64_t{random_word(key, static_cast<uint64_t>(i))} * static_cast<uint64_t>(i + 1)) >> 32;
    std::swap(order[i], order[chosen]);
  }
  return out;
}

Tensor dropout(const Tensor& x, double rate, Generator& generator, bool training, Where where) {
  const Call call("dropout", where);
  if (!(rate >= 0 && rate <= 1)) throw ValueError(fmt::format("rate must be from 0 to 1, not {}", rate));
  if (!training || rate == 0) return x;
  return dropout_with_key(x, rate, generator.next(), where);
}

}  // namespace linnet
