#pragma once

#include <functional>
#include <vector>

#include <linnet/core/tensor.h>

namespace linnet {

/// f(inputs), whose backward calls f again instead of keeping what the ops in f saved (Chen et al. 2016, "Training
/// deep nets with sublinear memory cost"). Memory holds only the inputs of each call until backward needs the rest.
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
/// Results and gradients have the same bits as those of f(inputs), also where f draws random numbers: the second call
/// gets those of the first one, and generators do not advance. Gradients reach the inputs and whatever else f reads,
/// such as parameters. Checkpoints may stand inside f. Under NoGrad this is f(inputs).
///
/// f must compute the same both times. It is kept until backward is done, and whatever it captures by reference must
/// live until then. A variable that f changes, such as a running mean, is changed twice.
///
/// Gradient: any number of times. With `retain` or `create_graph` the tape keeps the tensors that f made again.
/// Cost: a second forward in backward; nothing where no op in f saved a tensor.
/// Throws: what f throws. Backward throws AutogradError where f saves or returns tensors of another number, shape or
/// dtype the second time, where it draws another number of times, and where a tensor that f read was edited.
std::vector<Tensor> checkpoint(std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)> f,
                               const std::vector<Tensor>& inputs);
/// The same of one input and one result.
Tensor checkpoint(std::function<Tensor(const Tensor& x)> f, const Tensor& x);

}  // namespace linnet
