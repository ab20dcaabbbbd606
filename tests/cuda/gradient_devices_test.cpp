#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/nn/optim/optim.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/reduction.h>

#include "tests/cuda/agreement.h"

/// A gradient must be on the device of its tensor. One on another device is refused before a kernel reads it as
/// memory of its own device, and the earlier gradient stays unchanged.

namespace linnet::test {
namespace {

Tensor gpu_leaf() { return full({3}, 2).to(Device::cuda).set_requires_grad(); }

/// Adds d(x·x)/dx for x = 2 to the gradient.
void add_four(const Tensor& x) { backward(sum(x * x)); }

std::vector<float> three(float value) { return {value, value, value}; }

/// A wrong op outside the library: its backward moves the gradient to another device.
Tensor moves_gradient(const Tensor& x) {
  Op op("moves_gradient", Where{}, {x});
  return op.record(x, [](const Tensor& g) { return Grads{g.to(Device::cpu)}; });
}

}  // namespace

TEST_CASE("gpu: set_grad refuses a gradient on the CPU") {
  if (!has_gpu("set_grad on the GPU")) return;
  Tensor x = gpu_leaf();
  CHECK_THROWS_WITH_AS(x.set_grad(ones({3})),
                       doctest::Contains("set_grad: the gradient is on cpu, the tensor on cuda; move it with "
                                         "to(Device::cuda)"),
                       DeviceError);
  CHECK_FALSE(x.grad().defined());
  x.set_grad(ones({3}).to(Device::cuda));
  add_four(x);
  CHECK(x.grad().to_vector<float>() == three(5));
  CHECK_THROWS_AS(x.set_grad(ones({3})), DeviceError);  // also if there is a gradient already
  CHECK(x.grad().to_vector<float>() == three(5));

  Tensor on_cpu = ones({3}).set_requires_grad();
  CHECK_THROWS_AS(on_cpu.set_grad(ones({3}).to(Device::cuda)), DeviceError);
}

TEST_CASE("gpu: backward and grad refuse a cotangent on the CPU") {
  if (!has_gpu("cotangents on the GPU")) return;
  const Tensor x = gpu_leaf(), y = x * x;
  const char* const text = "is on cpu, the loss on cuda; move it with to(Device::cuda)";
  CHECK_THROWS_WITH_AS(backward(y, {.grad = ones({3})}), doctest::Contains(text), DeviceError);
  const Tensor view = x.narrow(0, 0, 2);
  CHECK_THROWS_WITH_AS(backward(view, {.grad = ones({2})}), doctest::Contains(text), DeviceError);
  CHECK_THROWS_WITH_AS(grad({y}, {x}, {.grad_outputs = {ones({3})}}),
                       doctest::Contains("is on cpu, an output on cuda"), DeviceError);
  CHECK_FALSE(x.grad().defined());
  backward(y, {.grad = ones({3}).to(Device::cuda)});  // the tape was kept
  CHECK(x.grad().to_vector<float>() == three(4));
}

TEST_CASE("gpu: a hook that moves the gradient is refused") {
  if (!has_gpu("hooks on the GPU")) return;
  Tensor x = gpu_leaf();
  add_four(x);
  bool moves = true;
  x.register_hook([&](const Tensor& g) { return moves ? g.to(Device::cpu) : g; });
  CHECK_THROWS_WITH_AS(add_four(x),
                       doctest::Contains("backward of leaf: the result of a hook is on cpu, the gradient on "
                                         "cuda; move it with to(Device::cuda)"),
                       DeviceError);
  CHECK(x.grad().to_vector<float>() == three(4));
  moves = false;
  add_four(x);
  CHECK(x.grad().to_vector<float>() == three(8));
}

TEST_CASE("gpu: an op whose backward returns a gradient on the CPU is refused") {
  if (!has_gpu("gradients of ops on the GPU")) return;
  const Tensor x = gpu_leaf();
  const char* const text =
      "backward of moves_gradient: the gradient of input 0 is on cpu, the input on cuda; move it with "
      "to(Device::cuda)";
  CHECK_THROWS_WITH_AS(backward(sum(moves_gradient(x))), doctest::Contains(text), DeviceError);
  CHECK_FALSE(x.grad().defined());
  add_four(x);
  // It is added neither to the gradient of a leaf nor to another gradient of the same backward.
  CHECK_THROWS_WITH_AS(backward(sum(moves_gradient(x))), doctest::Contains(text), DeviceError);
  CHECK_THROWS_WITH_AS(backward(sum(x * moves_gradient(x))), doctest::Contains(text), DeviceError);
  CHECK(x.grad().to_vector<float>() == three(4));
  add_four(x);
  CHECK(x.grad().to_vector<float>() == three(8));
}

TEST_CASE("gpu: gradients pass from device to device by to()") {
  if (!has_gpu("gradients that move")) return;
  const Tensor on_gpu = gpu_leaf(), on_cpu = full({3}, 3).set_requires_grad();
  backward(sum(on_gpu.to(Device::cpu) * on_cpu));
  backward(sum(on_gpu * on_cpu.to(Device::cuda)));
  CHECK(on_gpu.grad().device() == Device::cuda);
  CHECK(on_cpu.grad().device() == Device::cpu);
  CHECK(on_gpu.grad().to_vector<float>() == three(6));
  CHECK(on_cpu.grad().to_vector<float>() == three(4));
}

TEST_CASE("gpu: an optimizer refuses a gradient that is not where its parameter is") {
  if (!has_gpu("optimizers on the GPU")) return;
  Tensor parameter = full({3}, 1).set_requires_grad(), elsewhere = gpu_leaf();
  nn::SGD optimizer({parameter}, {.lr = 0.5});
  const std::shared_ptr<Node> own = detail::node(parameter);
  add_four(elsewhere);
  detail::set_node(parameter, detail::node(elsewhere));  // the only way, since set_grad and backward refuse
  CHECK_THROWS_WITH_AS(
      optimizer.step(),
      doctest::Contains("step: a parameter of shape [3] is on cpu, its gradient on cuda; move it with "
                        "to(Device::cpu)"),
      DeviceError);
  CHECK(parameter.to_vector<float>() == three(1));
  detail::set_node(parameter, own);
  parameter.set_grad(ones({3}));
  optimizer.step();
  CHECK(parameter.to_vector<float>() == three(0.5));
}

}  // namespace linnet::test
