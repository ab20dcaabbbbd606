#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <linnet/core/dtype.h>
#include <linnet/core/memory_stats.h>
#include <linnet/core/random/philox.h>

/// What a device must be able to do: the one list that the CPU (ops/cpu) and CUDA (cuda) each fill. Ops check their
/// arguments before they come here, so a kernel may assume what its line below states. C++17, so that nvcc reads it.

namespace linnet {

/// A tensor as a kernel sees it. `data` points at element 0; strides are in elements, 0 where broadcast. Shape and
/// strides are borrowed from the tensor and live as long as the call.
struct View {
  void* data;
  DType dtype;
  int rank;
  const int64_t* shape;
  const int64_t* strides;
};

/// `count` tensors as a kernel sees them.
struct Views {
  const View* data;
  int64_t count;
};

// What a kernel with a choice can be asked for: core/device/kernel_names.h lists them, so that a new one compiles
// again only what names one.
enum class Unary : uint8_t;
enum class Binary : uint8_t;
enum class Compare : uint8_t;
enum class Reduce : uint8_t;
enum class ArgReduce : uint8_t;

/// How `attention` weighs a score: softmax, or Fastmax's polynomial a0 + a1·s + a2·s².
struct AttentionKind {
  bool softmax;
  double a0, a1, a2;  ///< used when not softmax
};

/// Dropout of whole queries and keys, as FastmaxDropout::token: their weights become a0 + (f − a0) times both
/// factors.
struct TokenDropout {
  int keep_of_256;  ///< 0 or 256 for none; see FastmaxParams
  bool shared_denominator;
  RandomKey q_rng, k_rng;
};

/// How `attention` weighs.
struct AttentionParams {
  AttentionKind kind;
  bool standardise;       ///< q and k are taken with mean 0 and variance 1 per token; see FastmaxParams
  double scale;           ///< s = scale · q·k
  bool causal;            ///< query i sees keys up to i + (keys − queries)
  double dropout;         ///< of the weights after normalisation; 0 for none
  RandomKey dropout_rng;  ///< element ((b·H + h)·N + i)·M + j of the stream decides on weight (i, j)
  TokenDropout tokens;    ///< polynomial weights only
};

/// What dropout of Fastmax drops (Gerami et al. 2024, section 2.4).
enum class FastmaxDropout : uint8_t {
  quadratic,  ///< products x_a·x_b of two entries of a query or key
  standard,   ///< features of all orders: 1, x_a and x_a·x_b
  token,      ///< a whole query or key: all of its features but the 1
};

/// How `fastmax` weighs query i and key j: f(t) = a0 + a1·t + a2·t², t = x_i·x_j.
struct FastmaxParams {
  double a0, a1, a2;
  bool standardise;  ///< x is q or k with mean 0 and variance 1 per token (eqs. 5–6, eps 1e-5); else q or k itself
  bool causal;       ///< query i sees keys up to i + (keys − queries)
  int keep_of_256;   ///< a feature stays, times 256/keep_of_256, where its random byte is below this; 256 for no
                     ///< dropout
  FastmaxDropout dropout;
  bool shared_denominator;  ///< the denominator is made of the dropped features too
  RandomKey q_rng, k_rng;
};

/// What both passes of the fused additive attention read: q, k, v [B, H, N, D] of any strides with unit last one,
/// where v may be q; w_q and w_k [H, D]; `padding_mask` a bool [B, N] or null, false where a token is padding.
struct AdditiveAttentionInputs {
  View q, k, v, w_q, w_k;
  const View* padding_mask;
  bool add;                  ///< p_i = q + k_i and u_i = k + v_i, instead of products
  bool causal;               ///< sums are over the tokens up to one's own
  double dropout;            ///< of the weights α and β after normalisation; 0 for none
  RandomKey dropout_rng[2];  ///< of α and β: element (b·H + h)·N + i of the stream decides on the weight of token i
};

/// Its results backward. `dv` is null where v is q: dq is then the sum of both gradients.
struct AdditiveAttentionGradients {
  View dq, dk;
  const View* dv;
  View dw_q, dw_k;
};

/// What changes from step to step of an optimizer, in memory of the device: recorded work finds it anew each time.
struct StepScalars {
  const double* lr;
  int64_t* steps;             ///< made so far; the kernel counts this one
  const bool* apply;          ///< where false, a step changes nothing and is not counted; null for true
  const double* grad_factor;  ///< multiplies the gradients, as rounded to their dtype; null for 1
};

/// A step of `adamw`, Loshchilov & Hutter 2019, algorithm 2.
struct AdamWParams {
  double beta1, beta2, eps, weight_decay;
  bool decoupled;  ///< AdamW's decay; otherwise Adam's, which adds to the gradient
};

/// What a step of AdamW does to one parameter: views are contiguous, of one shape and dtype.
struct AdamWUpdate {
  View param, grad, first_moment, second_moment;
  StepScalars scalars;
  AdamWParams params;
};

/// `count` of them.
struct AdamWUpdates {
  const AdamWUpdate* data;
  int64_t count;
};

/// A step of `sgd`.
struct SgdParams {
  double momentum, dampening, weight_decay;
  bool nesterov;
};

/// Kernels of a device that were recorded, and the memory that they work in, which nothing else is given as long as
/// this lives. What they were passed by value stays as it was; tensors that they use from outside must live too.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  /// Queues them. Their random streams are the recorded ones plus `draws`.
  virtual void replay(uint64_t draws) = 0;
};

/// What a device does: one function for each line, none of them null. bfloat16, which GPUs store, is taken by the
/// functions that are elementwise and by `dropout`, `reduce` to sums, `gather`, `index_select`, `gemm`, the norms,
/// `attention`, `fastmax`, `additive_attention` and `short_conv`. Beside it parameters, their gradients and all that
/// forward leaves for backward are float32.
struct Backend {
  /// The hardware and the libraries in use, for build_info().
  std::string (*describe)();

  // Memory. `allocate` throws MemoryError; sizes are bytes.
  void* (*allocate)(int64_t bytes);
  void (*deallocate)(void* data, int64_t bytes);
  MemoryStats (*memory_stats)();
  void (*reset_peak)();
  void (*release_cached)();
  /// Dense copies between host and device memory; on the CPU both are a memcpy.
  void (*from_host)(void* device, const void* host, int64_t bytes);
  void (*to_host)(void* host, const void* device, int64_t bytes);

  /// Calls `work` and returns the kernels that it asks for, without running them, to be run in one go. Meanwhile
  /// a read of the device throws DeviceError, what is copied to it is kept and copied by each replay, and no other
  /// thread may launch kernels. Null, and no call, where a device would gain nothing.
  std::unique_ptr<RecordedWork> (*record)(const std::function<void()>& work);

  /// How products of float32 matrices, those inside of attention too, are made from now on. Throws DeviceError for a
  /// way that the device does not have.
  void (*set_precision)(Precision precision);

  // Elementwise: all views have out's shape (inputs are already expanded). `copy` converts dtypes.
  void (*copy)(View out, View x);
  void (*fill)(View out, Scalar value);
  void (*unary)(Unary op, View out, View x);
  void (*binary)(Binary op, View out, View a, View b);
  void (*compare)(Compare op, View out, View a, View b);
  void (*where)(View out, View condition, View a, View b);
  bool (*has_nan)(View x);

  // Random: out is contiguous; element i takes word i of the stream (normals take words 2i and 2i + 1, by
  // Box–Muller; float64 uniforms take them too, as 53 bits).
  void (*uniform)(View out, RandomKey key);
  void (*normal)(View out, RandomKey key);
  /// Integers in [low, low + range): low + (word · range) >> 32, range ≤ 2^32.
  void (*random_integers)(View out, int64_t low, int64_t range, RandomKey key);
  /// out = x · (word < keep_threshold(1 − rate)) / (1 − rate); out and x contiguous.
  void (*dropout)(View out, View x, double rate, RandomKey key);

  // Reductions: out has x's rank, with size 1 where x is reduced. Fixed order of summation. max and min carry NaN.
  /// Sums of squares are float64 for every x: a float32 may hold their root and not them. Sums of bfloat16 are that
  /// or float32, as out is.
  void (*reduce)(Reduce op, View out, View x);
  /// int64 index of the first extreme along `dim` (size 1 in out); a NaN counts as the extreme.
  void (*arg_reduce)(ArgReduce op, View out, View x, int dim);
  /// Inclusive prefix sum along `dim`, or suffix sum when `reverse`.
  void (*cumsum)(View out, View x, int dim, bool reverse);
  /// Along the last dim, out contiguous; rows that are all −inf give 0 (softmax) and −inf (log).
  void (*softmax)(View out, View x, bool log);
  /// Along the last dim; stable; values and int64 indices contiguous, and maybe shorter there: then they take what
  /// comes first in order. NaN sorts as the largest.
  void (*sort)(View values, View indices, View x, bool descending);

  // Indexing. Indices are int64, contiguous, and already checked against their range.
  /// out[..., i, ...] = x[..., index[..., i, ...], ...] along dim; out and index have one shape.
  void (*gather)(View out, View x, View index, int dim);
  /// out[..., index[..., i, ...], ...] += src[..., i, ...] in the order of i; deterministic.
  void (*scatter_add)(View out, View index, View src, int dim);
  /// out[..., i, ...] = x[..., index[i], ...]; index has rank 1.
  void (*index_select)(View out, View x, View index, int dim);
  /// out[..., index[i], ...] += src[..., i, ...] in the order of i; deterministic.
  void (*index_add)(View out, View index, View src, int dim);

  // Matrix products.
  /// out[b, m, n] = sum_k a[b, m, k] · b[b, k, n] (+ bias[n], when bias is not null). Rank 3.
  /// Any strides: operands with a unit stride in either of the last two dims are used in place. out has unit
  /// stride in its last dim. float32 and float64; of bfloat16 factors bfloat16 or float32, with a bias of float32.
  void (*gemm)(View out, View a, View b, const View* bias);

  // Fused layers, on rows: x is [rows, C] contiguous, statistics are [rows]; weight and bias are [C] or null.
  /// y = (x − mean)/sqrt(var + eps) · weight + bias (Ba et al. 2016, eq. 4)
  void (*layer_norm)(View y, View mean, View rstd, View x, const View* weight, const View* bias, double eps);
  /// dweight and dbias may be null; otherwise they are written, summed over rows in fixed order.
  void (*layer_norm_backward)(View dx, const View* dweight, const View* dbias, View dy, View x, View mean, View rstd,
                              const View* weight);
  /// y = x / sqrt(mean(x²) + eps) · weight (Zhang & Sennrich 2019, eq. 4)
  void (*rms_norm)(View y, View rstd, View x, const View* weight, double eps);
  void (*rms_norm_backward)(View dx, const View* dweight, View dy, View x, View rstd, const View* weight);
  /// Per row: loss = logsumexp(x) − (1 − ε)·x[target] − ε·mean(x), 0 where target is ignore_index. For backward, lse
  /// [rows, 2] keeps m = max(x) and log(sum e^{x − m}) apart: rounded at the size of m, their sum loses digits.
  void (*cross_entropy)(View loss, View lse, View logits, View targets, int64_t ignore_index, double smoothing);
  /// dlogits = dloss[row] · (softmax(x) − (1 − ε)·onehot − ε/C)
  void (*cross_entropy_backward)(View dlogits, View dloss, View lse, View logits, View targets, int64_t ignore_index,
                                 double smoothing);

  // Attention: q [B, H, N, D], k and v [B, H, M, D], o [B, H, N, D], any strides with unit last one; `padding_mask`
  // is a bool [B, M] or null, false where a key is padding. A row with no key left gives 0 and no gradients.
  /// `denominator` [B, H, N] contiguous is for the same device's backward: the row's denominator g, of softmax its
  /// logarithm, to a base of the device's choice.
  void (*attention)(View o, View denominator, View q, View k, View v, const View* padding_mask,
                    AttentionParams params);
  void (*attention_backward)(View dq, View dk, View dv, View d_o, View o, View denominator, View q, View k, View v,
                             const View* padding_mask, AttentionParams params);

  /// Fastmax in its factorised form (Gerami et al. 2024, eqs. 24–35), on tensors as for `attention`, none of them
  /// empty. `denominator` is the denominator g. Dropout: with i = (head · tiles + n / 64) · features + f (of which
  /// there is 1 when whole tokens are dropped), byte 64·i + n % 64 of the stream of the queries or keys, 16 of them
  /// in a Philox block, decides on feature f of token n. Tokens are counted as keys are; when causal, the last query
  /// as the last key, and all from whichever comes first. `tiles` is a 64th of the tokens so counted, rounded up.
  void (*fastmax)(View o, View denominator, View q, View k, View v, const View* padding_mask,
                  const FastmaxParams& params);
  void (*fastmax_backward)(View dq, View dk, View dv, View d_o, View o, View denominator, View q, View k, View v,
                           const View* padding_mask, const FastmaxParams& params);

  // Additive pooling (Fastformer, eqs. 3–6): out[b,h,i] = sum_j softmax_j(scores[b,h,j]) · x[b,h,j], over j ≤ i when
  // causal (out [B, H, N, D]), else over all (out [B, H, 1, D]). scores [B, H, N]; x [B, H, N, D]; `padding_mask` [B,
  // N] or null. maximum and total [B, H, N or 1] are the running maximum m and z = sum e^{s − m}.
  void (*attention_pool)(View out, View maximum, View total, View scores, View x, const View* padding_mask,
                         bool causal);
  void (*attention_pool_backward)(View dscores, View dx, View dout, View out, View maximum, View total, View scores,
                                  View x, const View* padding_mask, bool causal);

  // Additive attention (Fastformer, eqs. 3–6) in one op, in time and memory linear in the tokens: u [B, H, N, D] like
  // q. Rows with no token left to sum are 0 and give no gradients.
  /// Elements that forward leaves for backward, for each of two stages and each sequence.
  int64_t (*additive_attention_pools)(int64_t heads, int64_t tokens, int64_t width, bool causal);
  /// `pools` [2, B, additive_attention_pools()] is contiguous; what it holds is the backend's own affair.
  void (*additive_attention)(View u, View pools, AdditiveAttentionInputs in);
  void (*additive_attention_backward)(AdditiveAttentionGradients out, View du, View pools,
                                      AdditiveAttentionInputs in);

  // Short convolution: y_i = x_i + sum_t weight[:, t] ∘ x_{i + t − before} over the tokens that exist and that
  // `padding_mask` (a bool [B, N] or null) keeps. x, y [B, N, C] with unit last stride; weight [C, W], any strides.
  void (*short_conv)(View y, View x, View weight, const View* padding_mask, int64_t before);
  void (*short_conv_backward)(View dx, View dweight, View dy, View x, View weight, const View* padding_mask,
                              int64_t before);

  /// norms[i] = ‖x[i]‖, the root of the sum of squares, in float64 and fixed order, for many tensors at a time: all
  /// contiguous; norms is float64 [x.count].
  void (*norms)(View norms, Views x);

  // Optimizers, in place; all views contiguous, of one shape and dtype.
  /// For many parameters at a time, to the bits of one by one.
  void (*adamw)(AdamWUpdates updates);
  /// `momentum` is null without momentum; the first step writes it and reads nothing from it.
  void (*sgd)(View param, View grad, const View* momentum, StepScalars scalars, SgdParams params);
};

/// The backend of a device. Throws DeviceError when it was not built, saying how to build it, or has no driver.
const Backend& backend(Device device);

/// Implemented in ops/cpu and in cuda (or its stub).
const Backend& cpu_backend();
const Backend& cuda_backend();

}  // namespace linnet
