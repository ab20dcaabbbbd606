#pragma once

#include <functional>
#include <vector>

#include <linnet/core/tensor.h>

namespace linnet {

/// Computes f(inputs). The ops in f keep no tensors for backward; instead, backward calls f again to compute them
/// (Chen et al. 2016, "Training deep nets with sublinear memory cost"). Until then, memory holds only the inputs.
///
///     struct Stack : nn::Module {
///       explicit Stack(Generator& rng) : Module(rng) {}
///       nn::ModuleList<nn::Block> blocks{*this, "blocks"};
///       Tensor operator()(Tensor h) {
///         for (nn::Block& block : blocks) h = checkpoint([&block](const Tensor& x) { return block(x); }, h);
///         return h;
///       }
///     };
///
/// Results and gradients are bit-identical to those of f(inputs), also if f draws random numbers: the second call
/// gets the numbers of the first, and generators do not advance. Gradients reach the inputs and all other tensors
/// that f reads, such as parameters. f may contain checkpoints. Under NoGrad this is just f(inputs).
///
/// f must compute the same both times. It is kept until backward is done, and all that it captures by reference must
/// live until then. A variable that f changes, such as a running mean, is changed twice.
///
/// Gradient: any number of times. With `retain` or `create_graph` the tape keeps the tensors of the second call.
/// Cost: a second forward in backward; nothing if no op in f saved a tensor.
/// Throws: what f throws. Backward throws AutogradError if the second call saves or returns tensors of another
/// number, shape or dtype, if it draws random numbers more or less often, or if a parameter that f read, or a
/// tensor that an op in f needs for backward, was edited.
std::vector<Tensor> checkpoint(std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)> f,
                               const std::vector<Tensor>& inputs);
/// A checkpoint of a function with one input and one result.
Tensor checkpoint(std::function<Tensor(const Tensor& x)> f, const Tensor& x);

}  // namespace linnet
