/// Typical mistakes of a first program, each with the error that names it and says what to do.

#include <doctest/doctest.h>

#include <functional>
#include <iterator>
#include <regex>

#include <linnet/linnet.h>

#include "tests/support/files.h"

using namespace linnet;

namespace {

struct Mlp : nn::Module {
  explicit Mlp(Generator& rng) : Module(rng) {}
  nn::Linear fc1{*this, "fc1", 784, 128};
  nn::Linear fc2{*this, "fc2", 128, 10};
  Tensor operator()(const Tensor& x) const { return fc2(gelu(fc1(x))); }
};

/// A model that forgot to register its parameter.
struct Scale : nn::Module {
  explicit Scale(Generator& rng) : Module(rng) {}
  Tensor weight = ones({1});
};

/// Layers of images, signals and sequences.
struct Layers : nn::Module {
  explicit Layers(Generator& rng) : Module(rng) {}
  nn::Conv2d conv{*this, "conv", 3, 4, 5};
  nn::BatchNorm1d norm{*this, "norm", 4};
  nn::GRU gru{*this, "gru", 3, 5, {.batch_first = true}};
};

/// The objects of a program before its mistake.
struct Program {
  Generator rng{1337};
  Mlp model{rng};
  nn::AdamW optimizer{model.parameters(), {.lr = 1e-3}};
  Tensor x = randn({4, 784}, rng);
  Tensor y = tensor<int64_t>({3, 1, 4, 1});
};

struct Mistake {
  std::string name;
  std::function<void(Program& p)> make;
  std::string message;  ///< with "here" for the place, without folders
};

const Mistake kMistakes[] = {
    {"images that were not flattened", [](Program& p) { p.model(p.x.reshape({4, 28, 28})); },
     "fc1 (Linear 784→128): x[4, 28, 28] does not fit weight[128, 784]: the last dim of x must be 784; did "
     "you mean x.reshape({4, -1})? (here)"},
    {"labels from 1 to 10", [](Program& p) { cross_entropy(p.model(p.x), p.y * 3 - 2); },
     "cross_entropy: target 10 of row 2 is not a class: there are 10, from 0 on (and ignore_index is -100) (here)"},
    {"labels as floating-point numbers", [](Program& p) { cross_entropy(p.model(p.x), p.y.to(DType::float32)); },
     "cross_entropy: targets must be int64 or int32, not float32; convert with to(DType::int64) (here)"},
    {"one-hot labels", [](Program& p) { cross_entropy(p.model(p.x), one_hot(p.y, 10)); },
     "cross_entropy: logits[4, 10] ask for targets[4], one class each, but targets have shape [4, 10]; "
     "argmax(targets, -1) makes classes of one-hot rows; the cross-entropy of probabilities is "
     "-(targets * log_softmax(logits, -1)).sum(-1).mean() (here)"},
    {"probabilities of the classes as labels",
     [](Program& p) { nll_loss(log_softmax(p.model(p.x), 1), full({4, 10}, 0.1)); },
     "nll_loss: targets must be int64 or int32, not float32; argmax(targets, -1) makes classes of one-hot rows; the "
     "cross-entropy of probabilities is -(targets * log_probs).sum(-1).mean() (here)"},
    {"a model without a width", [](Program& p) { nn::DecoderLM(p.rng, {.vocabulary = 65, .context = 8}); },
     "DecoderLM: block.attention.width is 0; it must be at least 1"},
    {"a gradient that backward never reached", [](Program& p) { p.x.grad().sum(); },
     "sum: the tensor is undefined: never assigned, or the gradient of a tensor that no backward reached (here)"},
    {"one label too many for the batch", [](Program& p) { cross_entropy(p.model(p.x), zeros({5}, DType::int64)); },
     "cross_entropy: logits[4, 10] ask for targets[4], one class each, but targets have shape [5] (here)"},
    {"classes of pixels in dim 1",
     [](Program&) { cross_entropy(zeros({2, 3, 4, 5}), zeros({2, 4, 5}, DType::int64)); },
     "cross_entropy: logits[2, 3, 4, 5] ask for targets[2, 3, 4], one class each, but targets have shape [2, 4, 5]; "
     "classes are the last dim: did you mean permute(logits, {0, 2, 3, 1})? (here)"},
    {"classes of tokens in dim 1", [](Program&) { nll_loss(zeros({2, 3, 4}), zeros({2, 4}, DType::int64)); },
     "nll_loss: log_probs[2, 3, 4] ask for targets[2, 3], one class each, but targets have shape [2, 4]; "
     "classes are the last dim: did you mean transpose(log_probs, 1, 2)? (here)"},
    {"backward of a loss for each example",
     [](Program& p) { backward(cross_entropy(p.model(p.x), p.y, {.reduction = Reduction::none})); },
     "backward: the loss has shape [4]; reduce it to one element (sum, mean), or give its gradient (here)"},
    {"backward twice",
     [](Program& p) {
       const Tensor loss = cross_entropy(p.model(p.x), p.y);
       backward(loss);
       backward(loss);
     },
     "backward of cross_entropy: the tape was already walked, and its saved tensors are freed; compute the result "
     "again, or pass {.retain = true} to the first backward to walk it again (here)"},
    {"a loss computed under NoGrad",
     [](Program& p) {
       const NoGrad no_grad;
       backward(cross_entropy(p.model(p.x), p.y));
     },
     "backward: the loss does not require grad: no op on the way to it was recorded with an input that "
     "requires one; was it computed under NoGrad, or from detached or frozen tensors? (here)"},
    {"zero_grad between backward and step",
     [](Program& p) {
       backward(cross_entropy(p.model(p.x), p.y));
       p.optimizer.zero_grad();
       p.optimizer.step();
     },
     "step: no parameter has a gradient; call backward(loss) first, and zero_grad() only after step() (here)"},
    {"a parameter updated by hand, and recorded",
     [](Program& p) {
       backward(cross_entropy(p.model(p.x), p.y));
       Tensor weight = p.model.fc1.weight();
       weight.copy_(weight - 0.1 * weight.grad());
     },
     "copy_: an in-place edit of a tensor that requires grad would not be seen by backward; edit it under "
     "NoGrad, or edit detach() or clone() of it (here)"},
    {"the batch reused before backward",
     [](Program& p) {
       const Tensor loss = cross_entropy(p.model(p.x), p.y);
       p.x.fill_(0);
       backward(loss);
     },
     "backward of fc1 (Linear 784→128): a tensor of shape [4, 784] that backward needs was edited in place "
     "after this call (edit 1, saved at 0); edit a clone() instead (here)"},
    {"data in double precision", [](Program& p) { p.model(p.x.to(DType::float64)); },
     "fc1 (Linear 784→128): dtypes differ: float64[4, 784] and float32[128, 784]; convert one with to(DType) (here)"},
    {"a parameter that was not registered", [](Program& p) { nn::SGD(Scale(p.rng).parameters(), {.lr = 0.1}); },
     "optimizer: no parameters; give it model.parameters(), of a model that registers them, by parameter() or "
     "as modules inside it"},
    {"a token outside the vocabulary",
     [](Program& p) {
       const nn::DecoderLM lm(p.rng, {.vocabulary = 65, .context = 8, .block = {.attention = {.width = 8}}});
       lm(full({1, 8}, 65, DType::int64));
     },
     "tok (Embedding 65×8): ids[0, 0] is 65, outside [0, 65): dim 0 of weight[65, 8] (here)"},
    {"weights of another model",
     [](Program& p) {
       const linnet::test::TemporaryFolder folder;
       struct Small : nn::Module {
         explicit Small(Generator& rng) : Module(rng) {}
         nn::Linear fc1{*this, "fc1", 784, 10};
       };
       Small(p.rng).save(folder / "model.safetensors");
       p.model.load(folder / "model.safetensors");
     },
     "load: model.safetensors does not fit the model; build the model with the settings of the saved one\n  "
     "different: fc1.bias is [128] float32 here and [10] float32 there\n  different: fc1.weight is [128, 784] "
     "float32 here and [10, 784] float32 there\n  missing: fc2.bias [10] float32\n  missing: fc2.weight [10, "
     "128] float32\n (here)"},
    {"images whose channels come last", [](Program& p) { Layers(p.rng).conv(zeros({2, 8, 8, 3})); },
     "conv (Conv2d 3→4, kernel 5): x[2, 8, 8, 3] has 8 channels, but weight[4, 3, 5, 5] takes 3; channels come "
     "second: "
     "did you mean permute(x, {0, 3, 1, 2})? (here)"},
    {"a kernel larger than the image", [](Program& p) { Layers(p.rng).conv(zeros({2, 3, 4, 4})); },
     "conv (Conv2d 3→4, kernel 5): the kernel reaches over 5 pixels, but with its padding the input has only 4; take "
     "a "
     "smaller kernel or dilation, or more padding (here)"},
    {"a batch of one for batch norm", [](Program& p) { Layers(p.rng).norm(zeros({1, 4})); },
     "norm (BatchNorm1d 4): x[1, 4] has one value for each channel, and training needs two or more for a variance: "
     "take "
     "a larger batch, or normalise by running_mean and running_var, as layers do after eval() (here)"},
    {"a sequence longer than its padding",
     [](Program& p) { Layers(p.rng).gru(zeros({2, 6, 3}), {.lengths = tensor<int64_t>({7, 1})}); },
     "gru (GRU 3→5): lengths[0] is 7, beyond the 6 steps of x; clip the lengths, or pad x (here)"},
    {"class indices as floats", [](Program& p) { nll_loss(log_softmax(p.model(p.x), 1), p.y.to(DType::float32)); },
     "nll_loss: targets must be int64 or int32, not float32; convert with to(DType::int64) (here)"},
    {"a checkpoint of another optimizer",
     [](Program& p) {
       const linnet::test::TemporaryFolder folder;
       backward(cross_entropy(p.model(p.x), p.y));
       p.optimizer.step();
       nn::SGD sgd(p.model.parameters(), {.lr = 0.1});
       nn::Checkpoint(folder / "run.safetensors").add("optimizer", p.optimizer).save();
       nn::Checkpoint(folder / "run.safetensors").add("optimizer", sgd).load();
     },
     "load: run.safetensors is of another run: optimizer: the state does not fit the optimizer: it has 11 tensors, 3 "
     "of "
     "them expected; was it saved by another kind of optimizer? (here)"},
    {"data that was not downloaded", [](Program&) { nn::Mnist("no/mnist"); },
     "Mnist: cannot read the folder no/mnist: No such file or directory; "
     "examples/fetch_data.sh gets MNIST (here)"},
};

std::string message_of(const Mistake& mistake) {
  Program program;
  try {
    mistake.make(program);
  } catch (const Error& error) {
    static const std::regex line(R"(\(mistakes_test\.cpp:\d+\))"), folder(R"(/\S*/)");
    return std::regex_replace(std::regex_replace(error.what(), line, "(here)"), folder, "");
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("a newcomer's mistakes: the error names each") {
  static_assert(std::size(kMistakes) >= 10);
  for (const Mistake& mistake : kMistakes) {
    CAPTURE(mistake.name);
    CHECK(message_of(mistake) == mistake.message);
  }
}
