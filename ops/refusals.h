#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>
#include <vector>

#include <linnet/core/random/generator.h>
#include <linnet/core/refused.h>
#include <linnet/core/tensor.h>

/// Functions and operators of other libraries that linnet does not have. Each makes the compiler say what to write
/// instead.

namespace linnet {

template <std::integral A, std::integral B, std::integral... More>
void zeros(A, B, More...) {
  static_assert(detail::refused<A, B, More...>, "sizes go in braces: write zeros({2, 3})");
}
template <std::integral A, std::integral B, std::integral... More>
void ones(A, B, More...) {
  static_assert(detail::refused<A, B, More...>, "sizes go in braces: write ones({2, 3})");
}
template <std::integral... Sizes>
void rand(Sizes...) {
  static_assert(detail::refused<Sizes...>,
                "random numbers come from a generator, and sizes go in braces: write "
                "Generator rng(seed); rand({2, 3}, rng)");
}
template <std::integral... Sizes>
void randn(Sizes...) {
  static_assert(detail::refused<Sizes...>,
                "random numbers come from a generator, and sizes go in braces: write "
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
template <std::same_as<bool>... Training>
void dropout(const Tensor&, double = 0.5, Training...) {
  static_assert(detail::refused<Training...>,
                "random numbers come from a generator: write Generator rng(seed); "
                "dropout(x, 0.5, rng), or nn::Dropout in a model");
}
template <class T = void>
void randint(int64_t, int64_t, const Shape&) {
  static_assert(detail::refused<T>,
                "random numbers come from a generator: write Generator rng(seed); "
                "randint(0, 10, {3}, rng)");
}
template <std::same_as<Generator>... Random>
void randint(int64_t, const Shape&, Random&...) {
  static_assert(detail::refused<Random...>,
                "the least number is named: write Generator rng(seed); "
                "randint(0, 10, {3}, rng)");
}
template <std::integral Size>
void randperm(Size) {
  static_assert(detail::refused<Size>,
                "random numbers come from a generator: write Generator rng(seed); "
                "randperm(10, rng)");
}
template <std::same_as<bool>... Replacement>
void multinomial(const Tensor&, int64_t, Replacement...) {
  static_assert(detail::refused<Replacement...>,
                "random numbers come from a generator: write Generator rng(seed); "
                "multinomial(probabilities, 5, rng)");
}
template <std::same_as<Tensor> T, class... More>
void bernoulli(const T&, const More&...) {
  static_assert(detail::refused<T, More...>, "write (rand_like(p, rng) < p).to(p.dtype()), or without to for a mask");
}
template <class... More>
void normal(double, double, const Shape&, const More&...) {
  static_assert(detail::refused<More...>, "write mean + std * randn({2, 3}, rng)");
}
template <std::same_as<Tensor> T, class Deviation, class... More>
void normal(const T&, const Deviation&, const More&...) {
  static_assert(detail::refused<T, Deviation, More...>, "write mean + std * randn_like(mean, rng)");
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
  static_assert(detail::refused<T, Dims...>, "dims go in braces: write flip(x, {0, 1})");
}
template <std::same_as<Tensor> T>
void take_along_axis(const T&, const Tensor&, int64_t) {
  static_assert(detail::refused<T>, "write take_along_dim(x, indices, dim)");
}

template <std::same_as<Tensor> T>
void argmax(const T&) {
  static_assert(detail::refused<T>, "name the dim: write argmax(x, dim), or argmax(x.flatten(), 0)");
}
template <std::same_as<Tensor> T>
void argmin(const T&) {
  static_assert(detail::refused<T>, "name the dim: write argmin(x, dim), or argmin(x.flatten(), 0)");
}
template <std::same_as<Tensor> T>
void one_hot(const T&) {
  static_assert(detail::refused<T>, "the number of classes is named: write one_hot(ids, 10)");
}
template <std::same_as<Tensor> T, class Divisor>
void fmod(const T&, const Divisor&) {
  static_assert(detail::refused<T, Divisor>,
                "write remainder(a, b) or a % b, which has b's sign, or a - b * trunc(a / b), which has a's");
}
template <class T = void>
void layer_norm(const Tensor&, const Shape&, const Tensor& = {}, const Tensor& = {}, double = 0) {
  static_assert(detail::refused<T>,
                "the last dim is normalised, and its size is not named: write layer_norm(x, weight, bias)");
}
template <class T = void>
void rms_norm(const Tensor&, const Shape&, const Tensor& = {}, double = 0) {
  static_assert(detail::refused<T>,
                "the last dim is normalised, and its size is not named: write rms_norm(x, weight)");
}
template <std::same_as<Tensor> T, class... Options>
void scaled_dot_product_attention(const T&, const Tensor&, const Tensor&, const Options&...) {
  static_assert(detail::refused<T, Options...>,
                "write softmax_attention(q, k, v), with {.causal = true} or {.attn_mask = mask} after them");
}
template <class T = void>
void backward(const Tensor&, const detail::RefusedBackwardOptions&) {
  static_assert(detail::refused<T>, "retain_graph is retain here: write backward(x, {.retain = true})");
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
                "three tensors and more go in braces: write einsum(\"i,ij,j->\", {x, a, y})");
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
