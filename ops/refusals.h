#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>
#include <vector>

#include <linnet/core/refused.h>
#include <linnet/core/tensor.h>

/// Functions and operators of other libraries that linnet does not have. Each makes the compiler say what to write
/// instead.

namespace linnet {

template <std::integral A, std::integral B, std::integral... More>
void zeros(A, B, More...) {
  static_assert(detail::refused<A, B, More...>, "sizes stand in braces: write zeros({2, 3})");
}
template <std::integral A, std::integral B, std::integral... More>
void ones(A, B, More...) {
  static_assert(detail::refused<A, B, More...>, "sizes stand in braces: write ones({2, 3})");
}
template <std::integral... Sizes>
void rand(Sizes...) {
  static_assert(detail::refused<Sizes...>,
                "random numbers come from a generator, and sizes stand in braces: write "
                "Generator rng(seed); rand({2, 3}, rng)");
}
template <std::integral... Sizes>
void randn(Sizes...) {
  static_assert(detail::refused<Sizes...>,
                "random numbers come from a generator, and sizes stand in braces: write "
                "Generator rng(seed); randn({2, 3}, rng)");
}
template <class T = void>
void rand(const Shape&) {
  static_assert(detail::refused<T>,
                "random numbers come from a generator: write Generator rng(seed); "
                "rand({2, 3}, rng)");
}
template <class T = void>
void randn(const Shape&) {
  static_assert(detail::refused<T>,
                "random numbers come from a generator: write Generator rng(seed); "
                "randn({2, 3}, rng)");
}
template <std::same_as<Tensor> T>
void rand_like(const T&) {
  static_assert(detail::refused<T>,
                "random numbers come from a generator: write Generator rng(seed); "
                "rand_like(x, rng)");
}
template <std::same_as<Tensor> T>
void randn_like(const T&) {
  static_assert(detail::refused<T>,
                "random numbers come from a generator: write Generator rng(seed); "
                "randn_like(x, rng)");
}
template <std::integral Seed>
void manual_seed(Seed) {
  static_assert(detail::refused<Seed>, "there is no hidden generator: write Generator rng(seed), and pass rng");
}
template <bool = false, class Number>  // the first one keeps `tensor<int64_t>({3})` out, which is a list
  requires std::is_arithmetic_v<Number>
void tensor(Number) {
  static_assert(detail::refused<Number>, "a tensor of rank 0 is scalar(value)");
}
template <class T = void>
void cat(const std::vector<Tensor>&, int64_t = 0) {
  static_assert(detail::refused<T>, "write concat({a, b}, dim)");
}
template <class T = void>
void concatenate(const std::vector<Tensor>&, int64_t = 0) {
  static_assert(detail::refused<T>, "concatenate is concat here: write concat({a, b}, dim)");
}
template <std::same_as<Tensor> T>
void mm(const T&, const Tensor&) {
  static_assert(detail::refused<T>, "write matmul(a, b) for matrices too");
}
template <std::same_as<Tensor> T>
void bmm(const T&, const Tensor&) {
  static_assert(detail::refused<T>, "write matmul(a, b), which takes batches too");
}
template <std::same_as<Tensor> T>
void dot(const T&, const Tensor&) {
  static_assert(detail::refused<T>, "write matmul(a, b), which takes vectors too");
}

template <std::same_as<Tensor> T, std::integral... Dims>
void flip(const T&, int64_t, int, Dims...) {
  static_assert(detail::refused<T, Dims...>, "dims stand in braces: write flip(x, {0, 1})");
}
template <std::same_as<Tensor> T>
void take_along_axis(const T&, const Tensor&, int64_t) {
  static_assert(detail::refused<T>, "write take_along_dim(x, indices, dim)");
}

template <std::same_as<Tensor> Mask, class A, class B>
  requires std::is_arithmetic_v<A> && std::is_arithmetic_v<B>
void where(const Mask&, A, B) {
  static_assert(
      detail::refused<Mask, A, B>,
      "two numbers have no dtype: write where(mask, scalar(1.0), 0), or mask.to(DType::float32) for 1 and 0");
}
template <std::same_as<Tensor> T, std::same_as<Tensor>... More>
void einsum(std::string_view, const T&, const Tensor&, const Tensor&, const More&...) {
  static_assert(detail::refused<T, More...>,
                "three tensors and more stand in braces: write einsum(\"i,ij,j->\", {x, a, y})");
}

template <std::same_as<Tensor> Mask>
void operator&(const Mask&, const Tensor&) {
  static_assert(detail::refused<Mask>, "write a && b for masks");
}
template <std::same_as<Tensor> Mask>
void operator|(const Mask&, const Tensor&) {
  static_assert(detail::refused<Mask>, "write a || b for masks");
}
template <std::same_as<Tensor> Mask>
void operator~(const Mask&) {
  static_assert(detail::refused<Mask>, "write !a for a mask");
}

}  // namespace linnet
