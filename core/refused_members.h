#pragma once

#include <concepts>
#include <vector>

#include <linnet/core/refused.h>
#include <linnet/core/shape.h>

namespace linnet {
class Tensor;
}

namespace linnet::detail {

/// The type of x.T. Each use of x.T fails to compile, and the compiler's message says what to write instead.
template <class Result>
struct RefusedTranspose {
  constexpr RefusedTranspose() = default;
  RefusedTranspose(const RefusedTranspose&) { (*this)(); }
  operator Result() const { return (*this)(); }
  Result operator()() const {
    static_assert(refused<Result>, "a transposed matrix is x.t(), in batches too");
    return {};
  }
};

/// The options of `backward`, with PyTorch's names too.
struct RefusedBackwardOptions {
  bool retain = false, retain_graph = false, create_graph = false;
};

/// Members of other libraries' tensors that Tensor does not have. `Tensor` inherits these declarations. A call of one
/// fails to compile, and the compiler's message says what to write instead.
class RefusedMembers {
 public:
  template <class... Nothing>
  void dim() const {
    static_assert(refused<Nothing...>, "the number of dims is x.rank()");
  }
  template <class... Nothing>
  void ndim() const {
    static_assert(refused<Nothing...>, "the number of dims is x.rank(), not ndim");
  }
  template <class... Nothing>
  void sizes() const {
    static_assert(refused<Nothing...>, "the sizes are x.shape()");
  }
  template <class... Nothing>
  void cuda() const {
    static_assert(refused<Nothing...>, "write x.to(Device::cuda)");
  }
  template <class... Nothing>
  void cpu() const {
    static_assert(refused<Nothing...>, "write x.to(Device::cpu)");
  }
  template <class T>
  void data_ptr() const {
    static_assert(refused<T>, "write x.data<T>() to read, x.mutable_data<T>() to write: both are spans");
  }
  template <class... Nothing>
  void requires_grad_(Nothing...) const {
    static_assert(refused<Nothing...>, "write x.set_requires_grad()");
  }

  // ---- Edits in place ----

  template <class... Nothing>
  void zero_() const {
    static_assert(refused<Nothing...>, "write x.fill_(0)");
  }
  template <class Other>
  void add_(const Other&) const {
    static_assert(refused<Other>, "write x += y, and likewise for -, * and /");
  }
  template <class Other>
  void sub_(const Other&) const {
    static_assert(refused<Other>, "write x -= y instead of x.sub_(y)");
  }
  template <class Other>
  void mul_(const Other&) const {
    static_assert(refused<Other>, "write x *= y instead of x.mul_(y)");
  }
  template <class Other>
  void div_(const Other&) const {
    static_assert(refused<Other>, "write x /= y instead of x.div_(y)");
  }
  template <class Mask, class Value>
  void masked_fill_(const Mask&, Value) const {
    static_assert(refused<Mask>, "write x.copy_(x.masked_fill(mask, value))");
  }
  template <class Index, class Source>
  void scatter_(int64_t, const Index&, const Source&) const {
    static_assert(refused<Index>, "write x.copy_(x.scatter(dim, index, src))");
  }
  template <class Index, class Source>
  void scatter_add_(int64_t, const Index&, const Source&) const {
    static_assert(refused<Index>, "write x.copy_(x.scatter_add(dim, index, src))");
  }
  template <std::same_as<Tensor> Values>
  void index_put_(const std::vector<Tensor>&, const Values&, bool = false) const {
    static_assert(refused<Values>, "write x.copy_(x.index_put({index}, values))");
  }
  template <class... Bounds>
  void clamp_(const Bounds&...) const {
    static_assert(refused<Bounds...>, "write x.copy_(x.clamp(min, max))");
  }
  template <class... Nothing>
  void abs_() const {
    static_assert(refused<Nothing...>, "write x.copy_(x.abs())");
  }
  template <class... Nothing>
  void exp_() const {
    static_assert(refused<Nothing...>, "write x.copy_(x.exp())");
  }
  template <class... Nothing>
  void relu_() const {
    static_assert(refused<Nothing...>, "write x.copy_(x.relu())");
  }

  // ---- Products ----

  template <class Other>
  void mm(const Other&) const {
    static_assert(refused<Other>, "x.mm is x.matmul(y)");
  }
  template <class Other>
  void bmm(const Other&) const {
    static_assert(refused<Other>, "x.bmm is x.matmul(y), which takes batches");
  }
  template <class Other>
  void mv(const Other&) const {
    static_assert(refused<Other>, "x.mv is x.matmul(y), which takes vectors");
  }
  template <class Other>
  void dot(const Other&) const {
    static_assert(refused<Other>, "x.dot is x.matmul(y), which takes two vectors");
  }

  // ---- Views and reductions ----

  static constexpr RefusedTranspose<Tensor> T{}, mT{};
  template <std::same_as<Shape> Dims = Shape>
  void amax(const Dims& = {}, bool = false) const {
    static_assert(refused<Dims>, "the largest along dims is x.max({dims})");
  }
  template <std::same_as<Shape> Dims = Shape>
  void amin(const Dims& = {}, bool = false) const {
    static_assert(refused<Dims>, "the smallest along dims is x.min({dims})");
  }
  template <std::same_as<Shape> Dims = Shape>
  void std(const Dims& = {}, bool = false) const {
    static_assert(refused<Dims>, "a standard deviation is x.var({dims}).sqrt()");
  }
  template <class... Nothing>
  void gelu(Nothing...) const {
    static_assert(refused<Nothing...>, "gelu is a function: write gelu(x)");
  }

  // ---- Other arguments of members that Tensor has ----

  template <std::same_as<Tensor> Mask>
  void operator[](const Mask&) const {
    static_assert(refused<Mask>,
                  "x[tensor] is not taken: write index_select(x, dim, index) for an index, and for a mask "
                  "masked_select(x, mask), where(mask, a, b) or masked_fill(x, mask, value)");
  }
  template <std::integral... Sizes>
  void reshape(int64_t, int, Sizes...) const {
    static_assert(refused<Sizes...>, "sizes go in braces: write x.reshape({2, 3})");
  }
  template <std::integral... Sizes>
  void view(int64_t, int, Sizes...) const {
    static_assert(refused<Sizes...>, "sizes go in braces: write x.view({2, 3})");
  }
  template <std::integral... Sizes>
  void expand(int64_t, int, Sizes...) const {
    static_assert(refused<Sizes...>, "sizes go in braces: write x.expand({2, 3})");
  }
  template <std::integral... Dims>
  void permute(int64_t, int, Dims...) const {
    static_assert(refused<Dims...>, "dims go in braces: write x.permute({0, 2, 1})");
  }
  template <std::integral... Sizes>
  void repeat(int64_t, int, Sizes...) const {
    static_assert(refused<Sizes...>, "sizes go in braces: write x.repeat({2, 3})");
  }
  template <std::integral... Dims>
  void flip(int64_t, int, Dims...) const {
    static_assert(refused<Dims...>, "dims go in braces: write x.flip({0, 1})");
  }
  template <std::same_as<bool>... Nothing>
  void size() const {
    static_assert(refused<Nothing...>, "the sizes are x.shape(), and that of one dim is x.size(dim)");
  }
  template <class Nothing = void>
  void to(const char*) const {
    static_assert(refused<Nothing>, "a device is not a string: write x.to(Device::cuda) or x.to(Device::cpu)");
  }
  template <class Nothing = void>
  void backward(const Tensor&) const {
    static_assert(refused<Nothing>, "its gradient is an option: write backward(x, {.grad = gradient})");
  }
  template <class Nothing = void>
  void backward(const RefusedBackwardOptions&) const {
    static_assert(refused<Nothing>, "options are taken by the function: write backward(x, {.retain = true})");
  }
  template <std::same_as<bool> Keep>
  void backward(const Tensor&, Keep) const {
    static_assert(refused<Keep>, "write backward(x, {.grad = gradient, .retain = true}), or {.retain = true} alone");
  }
  template <class... Nothing>
  void squeeze() const {
    static_assert(refused<Nothing...>, "name the dim: write x.squeeze(dim), or x.reshape(…)");
  }
  template <class... Nothing>
  void argmax() const {
    static_assert(refused<Nothing...>, "name the dim: write x.argmax(dim), or x.flatten().argmax(0)");
  }
  template <class... Nothing>
  void argmin() const {
    static_assert(refused<Nothing...>, "name the dim: write x.argmin(dim), or x.flatten().argmin(0)");
  }
};

}  // namespace linnet::detail
