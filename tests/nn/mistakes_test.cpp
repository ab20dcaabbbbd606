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

/// What a program has before it goes wrong.
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
  std::string message;  ///< without the line and folders
};

const Mistake kMistakes[] = {
    {"images that were not flattened", [](Program& p) { p.model(p.x.reshape({4, 28, 28})); },
     "fc1 (Linear 784→128): x[4, 28, 28] does not fit weight[128, 784]: the last dim of x must be 784; did "
     "you mean x.reshape({4, -1})?"},
    {"labels from 1 to 10", [](Program& p) { cross_entropy(p.model(p.x), p.y * 3 - 2); },
     "cross_entropy: target 10 of row 2 is not a class: there are 10, from 0 on (and ignore_index is -100)"},
    {"labels as floating-point numbers", [](Program& p) { cross_entropy(p.model(p.x), p.y.to(DType::float32)); },
     "cross_entropy: targets must be int64 or int32, not float32; convert with to(DType::int64)"},
    {"one label too many for the batch", [](Program& p) { cross_entropy(p.model(p.x), zeros({5}, DType::int64)); },
     "cross_entropy: logits[4, 10] ask for targets[4], one class each, but targets have shape [5]"},
    {"backward of a loss for each example",
     [](Program& p) { backward(cross_entropy(p.model(p.x), p.y, {.reduction = Reduction::none})); },
     "backward: the loss has shape [4]; reduce it to one element (sum, mean), or give its gradient"},
    {"backward twice",
     [](Program& p) {
       const Tensor loss = cross_entropy(p.model(p.x), p.y);
       backward(loss);
       backward(loss);
     },
     "backward of cross_entropy: the tape was already walked, and what it saved is gone; compute the result "
     "anew, or pass {.retain = true} to the first backward to walk it again"},
    {"a loss computed under NoGrad",
     [](Program& p) {
       const NoGrad no_grad;
       backward(cross_entropy(p.model(p.x), p.y));
     },
     "backward: the loss does not require grad: no op on the way to it was recorded with an input that "
     "requires one; was it computed under NoGrad, or from detached or frozen tensors?"},
    {"zero_grad between backward and step",
     [](Program& p) {
       backward(cross_entropy(p.model(p.x), p.y));
       p.optimizer.zero_grad();
       p.optimizer.step();
     },
     "step: no parameter has a gradient; call backward(loss) first, and zero_grad() only after step()"},
    {"a parameter updated by hand, and recorded",
     [](Program& p) {
       backward(cross_entropy(p.model(p.x), p.y));
       Tensor weight = p.model.fc1.weight();
       weight.copy_(weight - 0.1 * weight.grad());
     },
     "copy_: an in-place edit of a tensor that requires grad would not be seen by backward; edit it under "
     "NoGrad, or edit detach() or clone() of it"},
    {"the batch reused before backward",
     [](Program& p) {
       const Tensor loss = cross_entropy(p.model(p.x), p.y);
       p.x.fill_(0);
       backward(loss);
     },
     "backward of fc1 (Linear 784→128): a tensor of shape [4, 784] that backward needs was edited in place "
     "after this call (edit 1, saved at 0); edit a clone() instead"},
    {"data in double precision", [](Program& p) { p.model(p.x.to(DType::float64)); },
     "fc1 (Linear 784→128): dtypes differ: float64[4, 784] and float32[128, 784]; convert one with to(DType)"},
    {"a parameter that was not registered", [](Program& p) { nn::SGD(Scale(p.rng).parameters(), {.lr = 0.1}); },
     "optimizer: no parameters; give it model.parameters(), of a model that registers them, by parameter() or "
     "as modules inside it"},
    {"a token outside the vocabulary",
     [](Program& p) {
       const nn::DecoderLM lm(p.rng, {.vocabulary = 65, .context = 8, .block = {.attention = {.width = 8}}});
       lm(full({1, 8}, 65, DType::int64));
     },
     "tok (Embedding 65×8): ids[0, 0] is 65, outside [0, 65): dim 0 of weight[65, 8]"},
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
     "128] float32\n"},
    {"data that was not downloaded", [](Program&) { nn::Mnist("no/mnist"); },
     "Mnist: cannot read the folder no/mnist: No such file or directory; "
     "examples/fetch_data.sh gets MNIST"},
};

std::string message_of(const Mistake& mistake) {
  Program program;
  try {
    mistake.make(program);
  } catch (const Error& error) {
    static const std::regex line(R"( ?\(mistakes_test\.cpp:\d+\))"), folder(R"(/\S*/)");
    return std::regex_replace(std::regex_replace(error.what(), line, ""), folder, "");
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
