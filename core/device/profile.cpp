#include <linnet/core/device/profile.h>

#include <cstring>
#include <initializer_list>
#include <new>
#include <type_traits>
#include <utility>

#include <linnet/core/device/kernel_names.h>
#include <linnet/core/device/profiled_call.h>
#include <linnet/core/error.h>

/// A kernel table whose functions call the kernels of the real table and time them. Ops and kernels do not know of
/// it.

namespace linnet {
namespace {

thread_local Profile* active_profile = nullptr;

// ---- The operands of a kernel ----

void add_keys(KernelCall& call, std::initializer_list<RandomKey> keys) { call.keys.insert(call.keys.end(), keys); }

template <class Argument>
void describe(KernelCall& call, const Argument& argument) {
  if constexpr (std::is_enum_v<Argument>) {
    call.kernel += std::string(" ") + name_of(argument);
  } else if constexpr (std::is_same_v<Argument, View>) {
    KernelCall::Operand operand{{}, {}, argument.dtype};
    int64_t elements = 1;
    for (int d = 0; d < argument.rank; ++d) {
      operand.shape.push_back(argument.shape[d]);
      operand.strides.push_back(argument.strides[d]);
      if (argument.strides[d] != 0 || argument.shape[d] == 0) elements *= argument.shape[d];
    }
    call.bytes += elements * size_of(argument.dtype);
    call.operands.push_back(std::move(operand));
  } else if constexpr (std::is_same_v<Argument, const View*>) {
    if (argument != nullptr) describe(call, *argument);
  } else if constexpr (std::is_same_v<Argument, AttentionMask>) {
    describe(call, argument.padding);
    describe(call, argument.ranges);
    describe(call, argument.codes);
  } else if constexpr (std::is_same_v<Argument, RandomKey>) {
    call.keys.push_back(argument);
  } else if constexpr (std::is_same_v<Argument, AttentionParams>) {
    if (argument.dropout > 0) call.keys.push_back(argument.dropout_rng);
    if (argument.tokens.keep_of_256 % 256 != 0) add_keys(call, {argument.tokens.q_rng, argument.tokens.k_rng});
  } else if constexpr (std::is_same_v<Argument, FastmaxParams>) {
    if (argument.keep_of_256 < 256) add_keys(call, {argument.q_rng, argument.k_rng});
  } else if constexpr (std::is_same_v<Argument, AdditiveAttentionInputs>) {
    for (const View& view : {argument.q, argument.k, argument.v, argument.w_q, argument.w_k}) describe(call, view);
    if (argument.dropout > 0) add_keys(call, {argument.dropout_rng[0], argument.dropout_rng[1]});
  } else if constexpr (std::is_same_v<Argument, AdditiveAttentionGradients>) {
    for (const View& view : {argument.dq, argument.dk, argument.dw_q, argument.dw_k}) describe(call, view);
    describe(call, argument.dv);
  } else if constexpr (std::is_same_v<Argument, Views>) {
    for (int64_t i = 0; i < argument.count; ++i) describe(call, argument.data[i]);
  } else if constexpr (std::is_same_v<Argument, AdamWUpdates>) {
    for (int64_t i = 0; i < argument.count; ++i) {
      const AdamWUpdate& update = argument.data[i];
      for (const View& view : {update.param, update.grad, update.first_moment, update.second_moment}) {
        describe(call, view);
      }
    }
  }
}

// ---- The timed table ----

/// The name of a kernel, as a template argument.
struct Name {
  char text[40] = {};
  template <size_t N>
  consteval Name(const char (&name)[N]) {
    for (size_t i = 0; i < N; ++i) text[i] = name[i];
  }
};

/// Waits for a GPU's kernels by reading a byte of its memory. Their calls return before they end.
void wait_for(Device device) {
  if (device == Device::cpu) return;
  const Backend& gpu = detail::untimed_backend(device);
  char byte = 0;
  static void* const place = [&] {
    void* const block = gpu.allocate(1);
    gpu.from_host(block, &byte, 1);
    return block;
  }();
  gpu.to_host(&byte, place, 1);
}

template <Device kDevice, auto kKernel, Name kName>
struct Timed;

template <Device kDevice, class Result, class... Arguments, Result (*Backend::*kKernel)(Arguments...), Name kName>
struct Timed<kDevice, kKernel, kName> {
  static Result call(Arguments... arguments) {
    KernelCall entry;
    entry.kernel = kName.text;
    (describe(entry, arguments), ...);
    wait_for(kDevice);  // for kernels that were called before the profile
    const detail::ProfiledCall timed(std::move(entry));
    const Backend& real = detail::untimed_backend(kDevice);
    if constexpr (std::is_void_v<Result>) {
      (real.*kKernel)(arguments...);
      wait_for(kDevice);
    } else {
      return (real.*kKernel)(arguments...);  // the result is on the host, so the call has waited for the kernel
    }
  }
};

template <Device kDevice>
struct TimedBackend : Backend {};

template <auto kKernel, Name kName, Device kDevice>
void time(TimedBackend<kDevice>& table) {
  table.*kKernel = Timed<kDevice, kKernel, kName>::call;
}

template <Device kDevice>
Backend make_timed_backend() {
  TimedBackend<kDevice> table{detail::untimed_backend(kDevice)};  // functions that describe or allocate are not timed
  time<&Backend::copy, "copy">(table);
  time<&Backend::fill, "fill">(table);
  time<&Backend::unary, "unary">(table);
  time<&Backend::binary, "binary">(table);
  time<&Backend::compare, "compare">(table);
  time<&Backend::where, "where">(table);
  time<&Backend::has_nan, "has_nan">(table);
  time<&Backend::uniform, "uniform">(table);
  time<&Backend::normal, "normal">(table);
  time<&Backend::random_integers, "random_integers">(table);
  time<&Backend::dropout, "dropout">(table);
  time<&Backend::reduce, "reduce">(table);
  time<&Backend::arg_reduce, "arg_reduce">(table);
  time<&Backend::cumsum, "cumsum">(table);
  time<&Backend::linear_recurrence, "linear_recurrence">(table);
  time<&Backend::softmax, "softmax">(table);
  time<&Backend::sort, "sort">(table);
  time<&Backend::gather, "gather">(table);
  time<&Backend::scatter_add, "scatter_add">(table);
  time<&Backend::scatter, "scatter">(table);
  time<&Backend::index_select, "index_select">(table);
  time<&Backend::index_add, "index_add">(table);
  time<&Backend::gemm, "gemm">(table);
  time<&Backend::layer_norm, "layer_norm">(table);
  time<&Backend::layer_norm_backward, "layer_norm_backward">(table);
  time<&Backend::rms_norm, "rms_norm">(table);
  time<&Backend::rms_norm_backward, "rms_norm_backward">(table);
  time<&Backend::group_moments, "group_moments">(table);
  time<&Backend::group_norm, "group_norm">(table);
  time<&Backend::group_norm_backward, "group_norm_backward">(table);
  time<&Backend::cross_entropy, "cross_entropy">(table);
  time<&Backend::cross_entropy_backward, "cross_entropy_backward">(table);
  time<&Backend::attention, "attention">(table);
  time<&Backend::attention_backward, "attention_backward">(table);
  time<&Backend::fastmax, "fastmax">(table);
  time<&Backend::fastmax_backward, "fastmax_backward">(table);
  time<&Backend::performer_attention, "performer_attention">(table);
  time<&Backend::performer_attention_backward, "performer_attention_backward">(table);
  time<&Backend::sampled_scores, "sampled_scores">(table);
  time<&Backend::attention_pool, "attention_pool">(table);
  time<&Backend::attention_pool_backward, "attention_pool_backward">(table);
  time<&Backend::additive_attention, "additive_attention">(table);
  time<&Backend::additive_attention_backward, "additive_attention_backward">(table);
  time<&Backend::conv2d, "conv2d">(table);
  time<&Backend::conv2d_backward_input, "conv2d_backward_input">(table);
  time<&Backend::conv2d_backward_weight, "conv2d_backward_weight">(table);
  time<&Backend::max_pool2d, "max_pool2d">(table);
  time<&Backend::recurrent, "recurrent">(table);
  time<&Backend::recurrent_backward, "recurrent_backward">(table);
  time<&Backend::short_conv, "short_conv">(table);
  time<&Backend::short_conv_backward, "short_conv_backward">(table);
  time<&Backend::norms, "norms">(table);
  time<&Backend::adamw, "adamw">(table);
  time<&Backend::sgd, "sgd">(table);
  constexpr size_t kUntimed = 11, kTimed = 54;
  static_assert(sizeof(Backend) == (kUntimed + kTimed) * sizeof(void*), "a kernel of Backend is not in this list");
  return table;
}

}  // namespace

Profile::Profile() : begin_(std::chrono::steady_clock::now()), outer_(active_profile) { active_profile = this; }
Profile::~Profile() { active_profile = outer_; }

detail::ProfiledCall::ProfiledCall(KernelCall call) : profile_(active_profile), call_(std::move(call)) {
  if (profile_ == nullptr) return;
  if (const Call* outermost = Call::outermost()) {
    if (call_.op.empty()) call_.op = outermost->name();
    call_.backward = std::strcmp(outermost->prefix(), "") != 0;
  }
  call_.begin_ms = profile_->elapsed_ms();
}

detail::ProfiledCall::~ProfiledCall() {
  if (profile_ == nullptr) return;
  call_.ms = profile_->elapsed_ms() - call_.begin_ms;
  try {
    profile_->add(std::move(call_));
  } catch (const std::bad_alloc&) {
    return;  // a destructor must not throw, so the profile lacks this call
  }
}

double Profile::elapsed_ms() const {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_).count();
}

const Backend* detail::timed_backend(Device device) {
  if (active_profile == nullptr) return nullptr;
  if (device == Device::cuda) {
    static const Backend gpu = make_timed_backend<Device::cuda>();
    return &gpu;
  }
  static const Backend cpu = make_timed_backend<Device::cpu>();
  return &cpu;
}

}  // namespace linnet
