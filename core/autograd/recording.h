#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <linnet/core/device/backend.h>
#include <linnet/core/error.h>
#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

namespace linnet {

/// A function of tensors, such as a whole training step, whose kernels a device runs again at one call from the host:
/// much of the time of a small model's step on a GPU goes into launching them one by one. The results are the same,
/// to the bit.
///
///     Recording step(Device::cuda, &generator, [&](const std::vector<Tensor>& batch) {
///       const Tensor loss = cross_entropy(model(batch[0]), batch[1]);
///       backward(loss);
///       const Tensor norm = nn::clip_grad_norm_(model.parameters(), 1);
///       optimizer.step(lt(norm, INFINITY));
///       optimizer.zero_grad();
///       return std::vector{loss};
///     });
///     optimizer.set_lr(rate(i));
///     const double loss = step({inputs, targets})[0].item<double>();
///
/// The first call runs the function as it is, which makes what stays, such as an optimizer's moments. The second one
/// runs it to record it; later ones do not run it. So every call must do the same work, and on tensors that stay
/// where they are and live as long as this: parameters, moments. What differs from call to call are the inputs, the
/// random numbers, and an optimizer's learning rate and counts of steps. Numbers that the function works out on the
/// host stay what they were, a learning rate too, so set that outside; and gradients from before are not seen, so end
/// with `zero_grad`.
///
/// The function may not read tensors of the device (`item`, `to_vector`, printing), nor copy any there: the second
/// call throws DeviceError, which says what to do instead, and leaves all usable but the gradients that the function
/// came to: drop them with `zero_grad`. Nor may it take batches of a Loader. Other threads' copies to the device wait
/// for it, a Loader's too; they may not use the device otherwise. On the CPU, and while a Profile is active, every
/// call runs the function.
class Recording {
 public:
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

  /// `generator` is the one that the function may draw from, and must outlive this; null for none.
  Recording(Device device, Generator* generator, Function function);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// Calls the function with the inputs, copied to the device. Returns what it returns, without history, which the
  /// next call overwrites. For inputs of other shapes or dtypes than those of the first call the function is run as
  /// it is. Throws what the function throws; when it is not run, IndexError for inputs that it uses as indices or
  /// targets and that are out of range, before anything is changed. (Inputs on the CPU are checked there, without
  /// waiting for the device.)
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs);

  // ---- For ops ----

  /// Whether this thread is recording.
  static bool is_under_way();
  /// Calls `check` with `values` on the CPU, before kernels rely on them; in a recording, with those of each call.
  /// Throws ValueError in a recording when `values` are not a view of one of its inputs.
  static void check_values(const Tensor& values, std::function<void(const Tensor& on_cpu)> check);
  /// `x`, made of nothing but sizes, copied to `device`: allowed in a recording, whose calls then copy it again.
  static Tensor constant(const Tensor& x, Device device);
  /// Throws DeviceError in a recording, but for a constant: what is copied to the device would stay the same.
  static void check_copy();
  /// To be called for an in-place edit: what is edited in a recording is so in its later calls too.
  static void note_edit(const Tensor& edited);
  /// Throws ValueError in a recording of which `generator` is not the generator.
  static void check_generator(const Generator& generator);

 private:
  /// A check of the elements of an input that a view of it has, on behalf of an op.
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
