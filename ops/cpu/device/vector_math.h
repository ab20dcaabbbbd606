#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

/// Elementary functions that a compiler can vectorise. For float they have no branches, errors of at most about 2
/// units in the last place unless stated otherwise (tests/ops/cpu/vector_math_test.cpp), and correct results for ±0,
/// denormals, ±∞ and NaN. For double they call the standard library. The polynomials are near-minimax fits made for
/// this file.

namespace linnet::cpu::LINNET_ISA::vec {

inline float from_bits(int32_t bits) { return std::bit_cast<float>(bits); }
inline int32_t to_bits(float x) { return std::bit_cast<int32_t>(x); }

inline double exp(double x) { return std::exp(x); }
inline double exp_of_normal(double x) { return std::exp(x); }
inline double log(double x) { return std::log(x); }
inline double exp2_below_one(double x) { return std::exp2(x); }
inline double nearest(double x) { return std::nearbyint(x); }
inline double exp2_times(double x, double power) {
  const double k = nearest(x), exponent = k + power;
  return exponent < -1000 ? 0 : std::ldexp(std::exp2(x - k), static_cast<int>(exponent));
}
inline double tanh(double x) { return std::tanh(x); }
inline double erf(double x) { return std::erf(x); }
inline double log1p(double x) { return std::log1p(x); }
inline double expm1(double x) { return std::expm1(x); }

/// exp(r) − 1 for |r| ≤ ln 2 / 2.
inline float expm1_near_zero(float r) {
  float p = 0.00139262504f;
  p = p * r + 0.00836323295f;
  p = p * r + 0.0416665524f;
  p = p * r + 0.166665763f;
  p = p * r + 0.5f;
  return p * (r * r) + r;
}

/// r = x − k·ln 2. The two parts of ln 2 keep the digits that one rounded factor would lose.
inline float minus_multiple_of_ln2(float x, float k) { return (x - k * 0.693145752f) - k * 1.42860677e-06f; }

/// exp(x) = 2^k · exp(r), where x = k·ln 2 + r and |r| ≤ ln 2 / 2.
inline float exp(float x) {
  // Beyond these bounds the result is 0 or ∞ anyway.
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  constexpr float kRound = 12582912.0f;  // 1.5·2^23: adding it leaves the nearest integer in the low bits
  const float shifted = x * 1.44269504f + kRound;
  const float k = shifted - kRound;
  const float r = minus_multiple_of_ln2(x, k);
  const float p = expm1_near_zero(r) + 1.0f;
  // Two factors, because 2^k alone may be a denormal or too large.
  const int32_t exponent = to_bits(shifted) - to_bits(kRound);
  const int32_t half = exponent >> 1;
  return p * from_bits((half + 127) << 23) * from_bits((exponent - half + 127) << 23);
}

/// exp(x) − 1 = 2^k · (exp(r) − 1) + (2^k − 1), with k and r as in exp.
inline float expm1(float x) {
  const float near = x < -18.0f ? -18.0f : x > 89.0f ? 89.0f : x;  // beyond, the result is −1 or ∞ anyway
  constexpr float kRound = 12582912.0f;
  const float shifted = near * 1.44269504f + kRound;
  const float k = shifted - kRound;
  const float r = minus_multiple_of_ln2(near, k);
  const float half = from_bits((to_bits(shifted) - to_bits(kRound) + 126) << 23);  // 2^(k − 1), as 2^128 is too large
  return std::copysign(2.0f * (half * expm1_near_zero(r) + (half - 0.5f)), x);
}

/// 2^r for |r| ≤ ½.
inline float exp2_near_zero(float r) {
  float p = 0.000153533620f;
  p = p * r + 0.00133988747f;
  p = p * r + 0.00961843736f;
  p = p * r + 0.0555033247f;
  p = p * r + 0.240226479f;
  p = p * r + 0.693147203f;
  return p * r + 1.0f;
}

/// 2^k, where `shifted` is k + 12582912 + 127, rounded to an integer: the shift leaves only its exponent bits.
inline float power_of_two(float shifted) {
  return from_bits(static_cast<int32_t>(static_cast<uint32_t>(to_bits(shifted)) << 23));
}

/// exp(x) for −87 ≤ x ≤ 88, where it is a normal number, so that x needs no clamping and 2^k is one factor. Elsewhere
/// any number, but NaN for NaN.
inline float exp_of_normal(float x) {
  constexpr float kRound = 12582912.0f + 127.0f;  // as in exp, with the bias of an exponent
  const float shifted = x * 1.44269504f + kRound;
  const float k = shifted - kRound;
  const float r = minus_multiple_of_ln2(x, k);
  return (expm1_near_zero(r) + 1.0f) * power_of_two(shifted);
}

/// 2^x for x ≤ 0, or above 0 by no more than rounding; 0 for x < −125. For the weights of softmax, at half the cost
/// of `exp`: no reduction by ln 2 and no clamping.
inline float exp2_below_one(float x) {
  constexpr float kRound = 12582912.0f + 127.0f;  // as in exp, with the bias of an exponent
  const float shifted = x + kRound;
  const float r = x - (shifted - kRound);
  return x < -125.0f ? 0.0f : exp2_near_zero(r) * power_of_two(shifted);  // the product keeps a NaN
}

/// The integer next to x, for |x| < 2^22; any number near x elsewhere.
inline float nearest(float x) {
  constexpr float kRound = 12582912.0f;
  return (x + kRound) - kRound;
}

/// 2^x · 2^power for an integer `power` ≤ −nearest(x); 0 where nearest(x) + power < −125. The factor 2^power is
/// exact: it changes no digit of 2^x.
inline float exp2_times(float x, float power) {
  const float k = nearest(x), exponent = k + power;
  return exponent < -125.0f ? 0.0f : exp2_near_zero(x - k) * power_of_two(exponent + (12582912.0f + 127.0f));
}

/// log(x) = k·ln 2 + log(1 + f), where x = 2^k · (1 + f) and 1 + f is within [√½, √2).
inline float log(float x) {
  const bool denormal = x < std::numeric_limits<float>::min();
  const float normal = denormal ? x * 0x1p23f : x;
  constexpr int32_t kSqrtHalf = 0x3f3504f3;
  // Unsigned, because it overflows for negative x.
  const auto bits = static_cast<int32_t>(static_cast<uint32_t>(to_bits(normal)) - static_cast<uint32_t>(kSqrtHalf));
  const float k = static_cast<float>((bits >> 23) - (denormal ? 23 : 0));
  const float f = from_bits((bits & 0x7fffff) + kSqrtHalf) - 1.0f;
  float p = 0.0697161108f;
  p = p * f - 0.114797339f;
  p = p * f + 0.116854198f;
  p = p * f - 0.124256872f;
  p = p * f + 0.142490581f;
  p = p * f - 0.166678026f;
  p = p * f + 0.200007156f;
  p = p * f - 0.24999997f;
  p = p * f + 0.333333313f;
  const float square = f * f;
  const float low = p * f * square - 0.5f * square + k * 1.42860677e-06f;
  float y = k * 0.693145752f + (f + low);
  y = x < std::numeric_limits<float>::infinity() ? y : x;
  y = x > 0 ? y : std::numeric_limits<float>::quiet_NaN();
  return x == 0 ? -std::numeric_limits<float>::infinity() : y;
}

inline float tanh(float x) {
  const float a = std::abs(x);
  const float z = x * x;
  float p = -0.00609671418f;
  p = p * z + 0.0209971797f;
  p = p * z - 0.0538509078f;
  p = p * z + 0.133327693f;
  p = p * z - 0.333333284f;
  const float near_zero = x + x * (z * p);
  const float far = 1.0f - 2.0f / (exp(2.0f * a) + 1.0f);
  return std::copysign(a < 0.625f ? near_zero : far, x);
}

/// x + x·P(x²) near 0, and 1 − exp(P(|x|)) elsewhere.
inline float erf(float x) {
  const float a = std::abs(x);
  const float z = x * x;
  float p = 8.38707419e-05f;
  p = p * z - 0.000814708124f;
  p = p * z + 0.00520145614f;
  p = p * z - 0.0268595889f;
  p = p * z + 0.112836994f;
  p = p * z - 0.376126349f;
  p = p * z + 0.128379167f;
  const float near_zero = x + x * p;
  const float t = (a > 4.0f ? 4.0f : a) - 1.0f;
  float q = 0.000202533774f;
  q = q * t - 0.00189203373f;
  q = q * t + 0.00998100638f;
  q = q * t - 0.0415533818f;
  q = q * t - 0.843105793f;
  q = q * t - 2.63896775f;
  q = q * t - 1.84960556f;
  const float far = 1.0f - exp(q);
  return std::copysign(a < 0.9f ? near_zero : far, x);
}

/// The normal distribution: Φ(x), and e^{−x²/2}, its density times √(2π).
template <class T>
struct Normal {
  T cdf, bell;
};

inline Normal<double> normal(double x) { return {0.5 * std::erfc(-x * 0.7071067811865476), std::exp(-0.5 * x * x)}; }

/// Φ(−|x|) = e^{−x²/2} · P(u), u = |x| / (1 + 0.22·|x|): one exponential serves both results, and the tail keeps its
/// digits except for the rounding of the exponent: errors of 5 units in the last place above −1, 200 at −13. Below
/// −13.2 it is 0.
inline Normal<float> normal(float x) {
  const float a = std::abs(x) > 20.0f ? 20.0f : std::abs(x);
  const float u = a / (1.0f + 0.22f * a);
  float p = -6.17330355e-07f;
  p = p * u + 9.7527431e-06f;
  p = p * u - 3.18392294e-05f;
  p = p * u - 0.000494887428f;
  p = p * u + 0.00678282474f;
  p = p * u - 0.0422903563f;
  p = p * u + 0.162233489f;
  p = p * u - 0.398942444f;
  p = p * u + 0.5f;
  const float bell = exp2_below_one(x * x * -0.72134752f);
  const float tail = bell * p;
  return {x < 0 ? tail : 1 - tail, bell};
}

/// log(1 + x) for x ≥ 0: the logarithm of the rounded sum, plus a correction for its rounding.
inline float log1p(float x) {
  const float sum = 1.0f + x;
  return log(sum) + (x - (sum - 1.0f)) / sum;
}

template <class T>
T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

/// elu(x) + 1: x + 1 above 0 and eˣ below, at least 1e-30
template <class T>
T elu_plus_one(T x) {
  const T below = exp_of_normal(x < T(-80) ? T(-80) : x);  // e⁻⁸⁰ is less than 1e-30
  return x > 0 ? x + T(1) : below < T(1e-30) ? T(1e-30) : below;
}

/// cos(2π·u) for u in [0, 1); the reduction of the angle is exact.
inline float cos_turns(float u) {
  const float s = std::abs(u - 0.5f) - 0.25f;  // cos(2πu) = sin(2πs), |s| ≤ ¼
  const float z = s * s;
  float p = -14.3940678f;
  p = p * z + 42.0097961f;
  p = p * z - 76.704277f;
  p = p * z + 81.6052246f;
  p = p * z - 41.3417015f;
  p = p * z + 6.28318548f;
  return s * p;
}

inline double cos_turns(double u) { return std::cos(6.283185307179586 * u); }

}  // namespace linnet::cpu::LINNET_ISA::vec
