#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <linnet/core/device/backend.h>
#include <linnet/core/error.h>
#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

namespace linnet {

/// A function of tensors, such as a whole training step, whose kernels are recorded once and then launched with one
/// call from the host (a CUDA graph). This saves time, because a small model's step on a GPU spends much of its time
/// in launching kernels one by one. The results are bit-identical.
///
///     Recording step(Device::cuda, &generator, [&](const std::vector<Tensor>& batch) {
///       const Tensor loss = cross_entropy(model(batch[0]), batch[1]);
///       backward(loss);
///       const Tensor norm = nn::grad_norm(model.parameters());
///       optimizer.step({.grad_factor = nn::clip_factor(norm, 1), .apply = lt(norm, INFINITY)});
///       optimizer.zero_grad();
///       return std::vector{loss};
///     });
///     optimizer.set_lr(rate(i));
///     const double loss = step({inputs, targets})[0].item<double>();
///
/// The first call runs the function without recording, so that it can make tensors that later calls use too, such as
/// an optimizer's moments. The second call runs the function again to record its kernels, and launches them. Later
/// calls only launch. On the CPU, and while a Profile is active, every call runs the function.
///
/// From call to call, only the inputs, the random numbers, and an optimizer's learning rate and step counts can
/// change. Every call does the same work on the same tensors, such as parameters and moments. These must outlive the
/// Recording.
class Recording {
 public:
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;  ///< the recorded function

  /// The function may draw random numbers from `generator` only, which must outlive the Recording; it is null for no
  /// generator.
  ///
  /// Numbers that the function computes on the host keep the values of the second call, so set the learning rate
  /// outside the function. A call does not see the gradients of the call before, so end the function with
  /// `zero_grad`. The function must not read tensors on the device (`item`, `to_vector`, printing), copy tensors to
  /// it, or take batches from a Loader.
  Recording(Device device, Generator* generator, Function function);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// Calls the function with the inputs, copied to the device, and returns its detached results. The next call
  /// overwrites them. While a call records, copies of other threads to the device wait, also those of a Loader; other
  /// threads must not use the device in any other way.
  ///
  /// Shapes: the Recording is for the shapes and dtypes of the first call. A call with others runs the function
  /// without recording.
  /// Throws: what the function throws. The call that records throws DeviceError if the function reads or copies as it
  /// must not, and says what to do instead. The gradients that the function had computed by then are unusable: call
  /// `zero_grad`. All else stays valid. A replay throws IndexError, before it changes anything, for inputs that the
  /// function uses as indices or targets and that are out of range. Inputs on the CPU are checked there, without a
  /// wait for the device.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs);

  // ---- For ops ----

  /// Whether this thread is inside the call that records.
  static bool is_under_way();
  /// Calls `check` with `values`, copied to the CPU, before kernels use them. In a recording, each replay calls it
  /// again.
  ///
  /// Throws: what `check` throws; ValueError in a recording when `values` are not a view of one of its inputs.
  static void check_values(const Tensor& values, std::function<void(const Tensor& on_cpu)> check);
  /// Copies `x` to `device`. The values of `x` must depend on sizes alone. In a recording this copy is allowed, and
  /// each replay copies the same values again.
  static Tensor constant(const Tensor& x, Device device);
  /// Refuses a copy to the device in a recording, because each replay would see the same values.
  ///
  /// Throws: DeviceError in a recording, unless `constant` makes the copy.
  static void check_copy();
  /// Notes an in-place edit, so that each replay increases the tensor's version counter too.
  static void note_edit(const Tensor& edited);
  /// Throws: ValueError in a recording that has another generator.
  static void check_generator(const Generator& generator);

 private:
  /// A check that an op makes of the elements of a view of an input.
  struct Check {
    size_t input;
    Shape shape;
    Strides strides;
    int64_t offset;
    const char* op;
    Where where;
    std::function<void(const Tensor& on_cpu)> function;
  };

  bool fit(const std::vector<Tensor>& inputs) const;
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) const;
  void record();
  void add_check(const Tensor& values, std::function<void(const Tensor& on_cpu)> check);
  void check(const std::vector<Tensor>& inputs) const;

  Device device_;
  Generator* generator_;
  Function function_;
  bool is_warm_ = false;  ///< the function has run once
  bool copies_constant_ = false;
  std::vector<Tensor> inputs_, outputs_, edited_;
  std::vector<Check> checks_;
  Generator::State begin_{}, end_{};  ///< the generator's, when the function was recorded
  std::unique_ptr<RecordedWork> work_;
};

}  // namespace linnet
