#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <linnet/core/dtype.h>
#include <linnet/core/memory_stats.h>
#include <linnet/core/random/philox.h>

/// The table of a device's functions, which the CPU (ops/cpu) and CUDA (cuda) each fill. Ops check their arguments
/// before they call a kernel, so a kernel may rely on its comment below. The code is C++17, so that nvcc compiles it.

namespace linnet {

/// A tensor as a kernel sees it. `data` points at element 0. Strides are in elements, and 0 in broadcast dims. Shape
/// and strides are borrowed from the tensor and valid during the call.
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

// The variants of kernels. core/device/kernel_names.h lists them, so that after adding a variant only the files that
// name variants are compiled again.
enum class Unary : uint8_t;
enum class Binary : uint8_t;
enum class Compare : uint8_t;
enum class Reduce : uint8_t;
enum class ArgReduce : uint8_t;

/// The function that `attention` and `fastmax` apply to each query and key x before they multiply them.
enum class RowMap : uint8_t {
  none,          ///< x itself
  standardise,   ///< x with mean 0 and variance 1 (Gerami et al. 2024, eqs. 5–6, eps 1e-5)
  elu_plus_one,  ///< elu(x) + 1, at least 1e-30; in queries also divided by its sum, which the denominator cancels
};

/// How `attention` turns a score into a weight: softmax, or Fastmax's polynomial a0 + a1·s + a2·s².
struct AttentionKind {
  bool softmax;
  double a0, a1, a2;  ///< used when not softmax
};

/// Dropout of whole queries and keys, as in FastmaxDropout::token: a weight f becomes a0 + (f − a0) times the factors
/// of its query and its key.
struct TokenDropout {
  int keep_of_256;  ///< 0 or 256 for none; see FastmaxParams
  bool shared_denominator;
  RandomKey q_rng, k_rng;
};

/// Which keys a query sees, in addition to AttentionParams::causal. A null member restricts nothing.
struct AttentionMask {
  const View* padding = nullptr;  ///< bool [B, M] or [B, H, M]: false where a key is padding
  /// int64 [B, H, N, 2], contiguous, but B and H may have stride 0: query i sees keys [begin, end), its two numbers.
  /// Neither decreases with i.
  const View* ranges = nullptr;
  /// int32 [B, H, R, N], contiguous, where queries and keys are the same N tokens: query i does not see key j where
  /// codes[r][i] − codes[r][j] is 0 or 1 for any r.
  const View* codes = nullptr;
};

/// How `attention` computes its weights.
struct AttentionParams {
  AttentionKind kind;
  RowMap map;            ///< of q and k
  double scale;          ///< s = scale · q·k
  bool causal;           ///< query i sees keys up to i + (keys − queries); only without ranges
  bool accumulate;       ///< adds these keys to those of earlier calls; softmax only
  bool accumulate_keys;  ///< in backward: adds to dk and dv; softmax only
  bool has_self_score;   ///< the score of query i and key i is `self_score`; softmax only
  double self_score;
  double dropout;         ///< of the weights after normalisation; 0 for none
  RandomKey dropout_rng;  ///< element ((b·H + h)·N + i)·M + j of the stream decides whether (i, j) is dropped
  TokenDropout tokens;    ///< for polynomial weights only
};

/// Which features Fastmax's dropout drops (Gerami et al. 2024, section 2.4).
enum class FastmaxDropout : uint8_t {
  quadratic,  ///< products x_a·x_b of two entries of a query or key
  standard,   ///< features of all orders: 1, x_a and x_a·x_b
  token,      ///< a whole query or key: all its features except the 1
};

/// How `fastmax` computes the weight of query i and key j: f(t) = a0 + a1·t + a2·t², t = x_i·x_j.
struct FastmaxParams {
  double a0, a1, a2;
  RowMap map;       ///< x is q or k after this function
  bool causal;      ///< query i sees keys up to i + (keys − queries)
  int keep_of_256;  ///< a feature is kept, times 256/keep_of_256, if its random byte is below this; 256: no dropout
  FastmaxDropout dropout;
  bool shared_denominator;  ///< the denominator too sums only the kept features
  RandomKey q_rng, k_rng;
};

/// The inputs of both passes of the fused additive attention: q, k, v [B, H, N, D] with last stride 1 and any others,
/// where v may be q; w_q and w_k [H, D]; `padding_mask` a bool [B, N] or null, false where a token is padding.
struct AdditiveAttentionInputs {
  View q, k, v, w_q, w_k;
  const View* padding_mask;
  bool add;                  ///< p_i = q + k_i and u_i = k + v_i, instead of products
  bool causal;               ///< the sums of a token are over the tokens up to itself
  double dropout;            ///< of the weights α and β after normalisation; 0 for none
  RandomKey dropout_rng[2];  ///< for α and β: element (b·H + h)·N + i of the stream decides on token i's weight
};

/// The results of its backward. If v is q, `dv` is null, and dq is the sum of both gradients.
struct AdditiveAttentionGradients {
  View dq, dk;
  const View* dv;
  View dw_q, dw_k;
};

/// How a convolution reads its input. For output pixel (i, j), tap (r, s) of the kernel multiplies the input pixel
/// (i·stride[0] + r·dilation[0] − padding[0], j·stride[1] + s·dilation[1] − padding[1]), or 0 outside of the input.
struct Conv2dParams {
  int64_t stride[2], padding[2], dilation[2];
  int64_t groups;
};

/// The windows of a pooling: the pixels that a convolution with a kernel of this size reads.
struct Pool2dParams {
  int64_t kernel[2], stride[2], padding[2], dilation[2];
};

/// Which gates a recurrent layer has.
enum class RecurrentCell : uint8_t {
  gru,   ///< reset r, update z, new n: 3 of them, in this order
  lstm,  ///< input i, forget f, cell g, output o: 4 of them, in this order
};

/// How a recurrent layer goes through its sequences.
struct RecurrentParams {
  RecurrentCell cell;
  bool reverse;         ///< from the last step to the first
  const View* lengths;  ///< int64 [B], contiguous, 1 to T: later steps do not change the state; null: all are T
};

/// The scalars of an optimizer's step. They are in device memory, so that a replay reads their current values.
struct StepScalars {
  const double* lr;
  int64_t* steps;             ///< the number of steps so far; the kernel adds this one
  const bool* apply;          ///< if false, the step changes nothing and is not counted; null for true
  const double* grad_factor;  ///< multiplies the gradients, rounded to their dtype; null for 1
};

/// Settings of `adamw` (Loshchilov & Hutter 2019, algorithm 2).
struct AdamWParams {
  double beta1, beta2, eps, weight_decay;
  bool decoupled;  ///< AdamW's weight decay; Adam's adds to the gradient instead
};

/// One parameter of a step of `adamw`. The views are contiguous, of one shape and dtype.
struct AdamWUpdate {
  View param, grad, first_moment, second_moment;
  StepScalars scalars;
  AdamWParams params;
};

/// `count` parameters of a step of `adamw`.
struct AdamWUpdates {
  const AdamWUpdate* data;
  int64_t count;
};

/// Settings of `sgd`.
struct SgdParams {
  double momentum, dampening, weight_decay;
  bool nesterov;
};

/// Recorded kernels of a device. Memory that was allocated during the recording is not reused while this lives.
/// Arguments that were passed by value keep their values. Other tensors that the kernels use must outlive this.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  /// Launches the kernels. Their random streams are the recorded streams plus `draws`.
  virtual void replay(uint64_t draws) = 0;
};

/// The functions of a device. None is null unless its comment says so. On GPUs these functions take bfloat16: the
/// elementwise ones, `dropout`, `reduce` to sums, `gather`, `scatter`, `index_select`, `gemm`, the norms,
/// `attention`, `fastmax`, `additive_attention` and `short_conv`. Their parameters, the parameters' gradients and the
/// state for backward are then float32.
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

  /// Calls `work` and returns the kernels that it launches, without running them. Meanwhile a read from the device
  /// throws DeviceError, and no other thread may launch kernels. Data copied to the device is kept, and each replay
  /// copies it again. A device that would gain nothing returns null and does not call `work`.
  std::unique_ptr<RecordedWork> (*record)(const std::function<void()>& work);

  /// Sets the precision of float32 matrix products, those inside attention too. Throws DeviceError for a precision
  /// that the device does not have.
  void (*set_precision)(Precision precision);

  // Elementwise: all views have out's shape (inputs are already expanded). `copy` converts dtypes.
  void (*copy)(View out, View x);
  void (*fill)(View out, Scalar value);
  void (*unary)(Unary op, View out, View x);
  void (*binary)(Binary op, View out, View a, View b);
  void (*compare)(Compare op, View out, View a, View b);
  void (*where)(View out, View condition, View a, View b);
  bool (*has_nan)(View x);

  // Random numbers: out is contiguous, and element i takes word i of the stream. Normal numbers (Box–Muller) and
  // float64 uniform numbers (53 bits) take words 2i and 2i + 1.
  void (*uniform)(View out, RandomKey key);
  void (*normal)(View out, RandomKey key);
  /// Integers in [low, low + range): low + (word · range) >> 32, range ≤ 2^32.
  void (*random_integers)(View out, int64_t low, int64_t range, RandomKey key);
  /// out = x · (word < keep_threshold(1 − rate)) / (1 − rate); out and x are contiguous.
  void (*dropout)(View out, View x, double rate, RandomKey key);

  // Reductions: out has x's rank, with size 1 where x is reduced. Sums have a fixed order. max and min propagate NaN.
  /// Sums of squares are float64 for every x, because they may overflow float32 although their square root does not.
  /// Sums of bfloat16 are bfloat16 or float32, like out.
  void (*reduce)(Reduce op, View out, View x);
  /// The int64 index of the first extreme along `dim`, which has size 1 in out. A NaN counts as the extreme.
  void (*arg_reduce)(ArgReduce op, View out, View x, int dim);
  /// The inclusive prefix sum along `dim`, or the suffix sum when `reverse`.
  void (*cumsum)(View out, View x, int dim, bool reverse);
  /// h_i = a_i · h_{i−1} + b_i along `dim`, where h_{−1} is `initial`; from the end when `reverse`. All views have
  /// out's shape and dtype.
  void (*linear_recurrence)(View out, View a, View b, int dim, bool reverse, double initial);
  /// The softmax, or its logarithm, along the last dim; out is contiguous. Rows of −inf give 0, or −inf for the
  /// logarithm.
  void (*softmax)(View out, View x, bool log);
  /// A stable sort along the last dim; values and int64 indices are contiguous. If they are shorter than x in that
  /// dim, they get the first elements in sorted order. NaN sorts as the largest.
  void (*sort)(View values, View indices, View x, bool descending);

  // Indexing. Indices are int64, of any strides, and already checked against their range.
  /// out[..., i, ...] = x[..., index[..., i, ...], ...] along dim; out and index have one shape.
  void (*gather)(View out, View x, View index, int dim);
  /// out[..., index[..., i, ...], ...] += src[..., i, ...] in the order of i; deterministic.
  void (*scatter_add)(View out, View index, View src, int dim);
  /// out[..., index[..., i, ...], ...] = src[..., i, ...]; of equal indices the last i wins.
  void (*scatter)(View out, View index, View src, int dim);
  /// out[..., i, ...] = x[..., index[i], ...]; index has rank 1.
  void (*index_select)(View out, View x, View index, int dim);
  /// out[..., index[i], ...] += src[..., i, ...] in the order of i; deterministic.
  void (*index_add)(View out, View index, View src, int dim);

  // Matrix products.
  /// out[b, m, n] = sum_k a[b, m, k] · b[b, k, n] (+ bias[n], when bias is not null). Rank 3. Any strides: operands
  /// with stride 1 in either of the last two dims are read in place. out has stride 1 in its last dim. float32 and
  /// float64; the product of bfloat16 factors is bfloat16 or float32, and the bias then float32.
  void (*gemm)(View out, View a, View b, const View* bias);

  // Fused layers, on rows: x is [rows, C] contiguous, statistics are [rows]; weight and bias are [C] or null.
  /// y = (x − mean)/sqrt(var + eps) · weight + bias (Ba et al. 2016, eq. 4)
  void (*layer_norm)(View y, View mean, View rstd, View x, const View* weight, const View* bias, double eps);
  /// dweight and dbias may be null; otherwise they are written, as sums over rows in a fixed order.
  void (*layer_norm_backward)(View dx, const View* dweight, const View* dbias, View dy, View x, View mean, View rstd,
                              const View* weight);
  /// y = x / sqrt(mean(x²) + eps) · weight (Zhang & Sennrich 2019, eq. 4)
  void (*rms_norm)(View y, View rstd, View x, const View* weight, double eps);
  void (*rms_norm_backward)(View dx, const View* dweight, View dy, View x, View rstd, const View* weight);

  // Batch norm and group norm: x [B, R, L], contiguous and not empty. There are S groups, each of R/S neighbouring
  // channels of all B images. The groups' means and biased variances are float64 [S]. weight, bias and their
  // gradients are [C] or null; channel r uses number r % C of them.
  void (*group_moments)(View mean, View variance, View x);
  /// y = (x − mean)/sqrt(variance + eps) · weight + bias
  void (*group_norm)(View y, View x, View mean, View variance, const View* weight, const View* bias, double eps);
  /// `fixed` statistics do not depend on x.
  void (*group_norm_backward)(View dx, const View* dweight, const View* dbias, View dy, View x, View mean,
                              View variance, const View* weight, double eps, bool fixed);

  /// For each row, loss = logsumexp(x) − (1 − ε)·x[target] − ε·mean(x), or 0 where target is ignore_index. For
  /// backward, `max_and_log_sum` [rows, 2] holds m = max(x) and log(sum e^{x − m}) separately, because their sum
  /// would lose digits if m is large.
  void (*cross_entropy)(View loss, View max_and_log_sum, View logits, View targets, int64_t ignore_index,
                        double smoothing);
  /// dlogits = dloss[row] · (softmax(x) − (1 − ε)·onehot − ε/C)
  void (*cross_entropy_backward)(View dlogits, View dloss, View max_and_log_sum, View logits, View targets,
                                 int64_t ignore_index, double smoothing);

  // Attention: q [B, H, N, D], k and v [B, H, M, D], o [B, H, N, D], with last stride 1 and any others. A query that
  // sees no key gives 0 and no gradients.
  /// `denominator` [B, H, N], contiguous, is for the same device's backward: each row's denominator g, or for softmax
  /// its logarithm, to a base that the device chooses. With `params.accumulate`, o and `denominator` hold the results
  /// over other keys at the start, and those over all keys at the end.
  void (*attention)(View o, View denominator, View q, View k, View v, AttentionMask mask, AttentionParams params);
  /// `o` and `denominator` are over all keys. `params.accumulate` adds to dq, `params.accumulate_keys` to dk and dv.
  void (*attention_backward)(View dq, View dk, View dv, View d_o, View o, View denominator, View q, View k, View v,
                             AttentionMask mask, AttentionParams params);

  /// Fastmax in its factorised form (Gerami et al. 2024, eqs. 24–35), on tensors as for `attention`, none of them
  /// empty. `denominator` holds g. Dropout: byte 64·line + n % 64 of the queries' or keys' stream, 16 bytes in a
  /// Philox block, decides on feature f of token n, where line = (head · tiles + n / 64) · features + f. `features`
  /// is 1 when whole tokens are dropped. `tiles` is the number of token numbers over 64, rounded up. Numbers start at
  /// 0. When causal, only the longer sequence starts there, and the last query has the number of the last key.
  void (*fastmax)(View o, View denominator, View q, View k, View v, const View* padding_mask,
                  const FastmaxParams& params);
  void (*fastmax_backward)(View dq, View dk, View dv, View d_o, View o, View denominator, View q, View k, View v,
                           const View* padding_mask, const FastmaxParams& params);

  /// FAVOR+ (Choromanski et al. 2021) with φ_r(x) = exp(ω_r·x' − ‖x'‖²/2), x' = x/D^¼, on tensors as for `attention`,
  /// none of them empty, and a contiguous `omega` [m, D]. `denominators` [2, B, H, N], contiguous, is for backward: g
  /// and the shift of each query's exponents. Only the CPU has these two; in other tables they may be null.
  void (*performer_attention)(View o, View denominators, View q, View k, View v, View omega, const View* padding_mask,
                              bool causal);
  void (*performer_attention_backward)(View dq, View dk, View dv, View d_o, View o, View denominators, View q, View k,
                                       View v, View omega, const View* padding_mask, bool causal);

  /// out[b,i,h,t] = q[b,h,i] · k[b,h,index[b,i,t]], contiguous; q and k [B, H, N, D] as for `attention`, index
  /// [B, N, u] of any strides.
  void (*sampled_scores)(View out, View q, View k, View index);

  // Attention pooling (Fastformer, eqs. 3–6): out[b,h,i] = sum_j softmax_j(scores[b,h,j]) · x[b,h,j], over j ≤ i when
  // causal (out [B, H, N, D]), and over all j otherwise (out [B, H, 1, D]). scores [B, H, N]; x [B, H, N, D];
  // `padding_mask` [B, N] or null. maximum and total [B, H, N or 1] are the running maximum m and z = sum e^{s − m}.
  void (*attention_pool)(View out, View maximum, View total, View scores, View x, const View* padding_mask,
                         bool causal);
  void (*attention_pool_backward)(View dscores, View dx, View dout, View out, View maximum, View total, View scores,
                                  View x, const View* padding_mask, bool causal);

  // Additive attention (Fastformer, eqs. 3–6) in one op, in time and memory linear in the tokens: u [B, H, N, D] like
  // q. Rows that have no token to sum are 0 and give no gradients.
  /// The number of elements that forward saves for backward, for each of two stages and each sequence.
  int64_t (*additive_attention_pools)(int64_t heads, int64_t tokens, int64_t width, bool causal);
  /// `pools` [2, B, additive_attention_pools()] is contiguous. The backend defines its content.
  void (*additive_attention)(View u, View pools, AdditiveAttentionInputs in);
  void (*additive_attention_backward)(AdditiveAttentionGradients out, View du, View pools,
                                      AdditiveAttentionInputs in);

  // Convolutions: x [B, C, H, W], weight [O, C/groups, R, S] and y [B, O, H', W'], contiguous, of one floating dtype,
  // none of them empty.
  /// y[b, o, i, j] = bias[o] + Σ_{c, r, s} weight[o, c, r, s] · x[b, c, the input pixel of (i, j) and (r, s)].
  void (*conv2d)(View y, View x, View weight, const View* bias, const Conv2dParams& params);
  /// The gradients of Σ dy·y with respect to x and to the weight.
  void (*conv2d_backward_input)(View dx, View dy, View weight, const Conv2dParams& params);
  void (*conv2d_backward_weight)(View dweight, View dy, View x, const Conv2dParams& params);
  /// y[b, c, i, j] = the largest x in the window of (i, j); indices, int64, is its first position in H·W. A NaN
  /// counts as the largest, padding is never chosen, and every window has a pixel of x.
  void (*max_pool2d)(View y, View indices, View x, const Pool2dParams& params);

  // Recurrent layers, whole sequences at a time: T steps of B sequences with states of H numbers and G gates, all
  // tensors contiguous and of one floating dtype, B and H at least 1.
  /// states [S, T + 1, B, H]: h, and for LSTM also c, before and after each step. The caller has filled the initial
  /// state, which is at T when `reverse`. projected [T, B, G·H]: the part of the gates' pre-activations that comes
  /// from the input. weight [G·H, H], and bias [G·H] or null, are for the part from h. `gates` [T, B, 4·H], or null,
  /// keeps r, z, n and n's part from h, or i, f, g and o.
  void (*recurrent)(View states, const View* gates, View projected, View weight, const View* bias,
                    const RecurrentParams& params);
  /// From dstates [S, T, B, H], the gradients of the states after each step, computes dinitial [S, B, H], that of the
  /// initial state, and the gradients of both parts of the pre-activations, [T, B, G·H]. For LSTM these two are the
  /// same, and dhidden is null.
  void (*recurrent_backward)(View dprojected, const View* dhidden, View dinitial, View dstates, View states,
                             View gates, View weight, const RecurrentParams& params);

  // Short convolution: y_i = x_i + sum_t weight[:, t] ∘ x_{i + t − before} over the tokens that exist and for which
  // `padding_mask` (a bool [B, N] or null) is true. x, y [B, N, C] with last stride 1; weight [C, W], any strides.
  void (*short_conv)(View y, View x, View weight, const View* padding_mask, int64_t before);
  void (*short_conv_backward)(View dx, View dweight, View dy, View x, View weight, const View* padding_mask,
                              int64_t before);

  /// norms[i] = ‖x[i]‖, the root of the sum of squares, for many contiguous tensors at a time. Sums are float64 in a
  /// fixed order; norms is float64 [x.count].
  void (*norms)(View norms, Views x);

  // Optimizers, in place; all views contiguous, of one shape and dtype.
  /// A step for many parameters at once, bit-identical to one step for each.
  void (*adamw)(AdamWUpdates updates);
  /// `momentum` is null without momentum. The first step writes it without reading it.
  void (*sgd)(View param, View grad, const View* momentum, StepScalars scalars, SgdParams params);
};

/// The backend of a device. Throws DeviceError when the device has no driver, or when this build lacks it; the
/// message then says how to build it.
const Backend& backend(Device device);

/// Implemented in ops/cpu and in cuda (or its stub).
const Backend& cpu_backend();
const Backend& cuda_backend();

}  // namespace linnet
