#include <linnet/ops/array/random.h>
#include <linnet/ops/layers/loss.h>
#include <linnet/ops/layers/normalisation.h>

#include "tests/support/op_case.h"

namespace linnet::test {
namespace {

using Inputs = std::vector<Tensor>;

void add_normalisation(Registry& registry) {
  Generator generator(31);
  const auto add = [&](const std::string& op, const std::string& variant, const Shape& x, int affine,
                       std::function<Tensor(const Inputs&)> f) {
    Inputs inputs{randn(x, generator, DType::float64)};
    for (int i = 0; i < affine; ++i) inputs.push_back(randn({x[x.rank() - 1]}, generator, DType::float64));
    registry.differentiable.push_back({op, variant, inputs, std::move(f), false});
  };
  const auto layer = [](const Inputs& in) {
    return layer_norm(in[0], in.size() > 1 ? in[1] : Tensor(), in.size() > 2 ? in[2] : Tensor());
  };
  add("layer_norm", "weight and bias", {3, 5}, 2, layer);
  add("layer_norm", "weight", {3, 5}, 1, layer);
  add("layer_norm", "no weight", {3, 5}, 0, layer);
  add("layer_norm", "bias only", {3, 5}, 1, [](const Inputs& in) { return layer_norm(in[0], {}, in[1]); });
  add("layer_norm", "leading dims, large eps", {2, 2, 4}, 2,
      [](const Inputs& in) { return layer_norm(in[0], in[1], in[2], 0.5); });
  add("layer_norm", "vector", {6}, 2, layer);
  add("layer_norm", "size 1", {2, 1}, 2, layer);
  add("layer_norm", "no rows", {0, 3}, 2, layer);
  add("layer_norm", "no columns", {2, 0}, 2, layer);

  const auto rms = [](const Inputs& in) { return rms_norm(in[0], in.size() > 1 ? in[1] : Tensor()); };
  add("rms_norm", "weight", {3, 5}, 1, rms);
  add("rms_norm", "no weight", {3, 5}, 0, rms);
  add("rms_norm", "leading dims, large eps", {2, 2, 4}, 1,
      [](const Inputs& in) { return rms_norm(in[0], in[1], 0.5); });
  add("rms_norm", "vector", {6}, 1, rms);
  add("rms_norm", "size 1", {2, 1}, 1, rms);
  add("rms_norm", "no rows", {0, 3}, 1, rms);
  add("rms_norm", "no columns", {2, 0}, 1, rms);
}

void add_cross_entropy(Registry& registry) {
  Generator generator(32);
  const auto add = [&](const std::string& variant, const Shape& logits, const CrossEntropyOptions& options,
                       int64_t ignored_row = -1) {
    const Shape rows(logits.begin(), logits.end() - 1);
    Tensor targets = randint(0, logits[logits.rank() - 1], rows, generator);
    if (ignored_row >= 0) targets.mutable_data<int64_t>()[static_cast<size_t>(ignored_row)] = options.ignore_index;
    registry.differentiable.push_back({"cross_entropy",
                                       variant,
                                       {randn(logits, generator, DType::float64)},
                                       [targets = targets.to(case_device()), options](const Inputs& in) {
                                         return cross_entropy(in[0], targets, options);
                                       },
                                       false});
  };
  add("mean", {4, 5}, {});
  add("sum", {4, 5}, {.reduction = Reduction::sum});
  add("none", {4, 5}, {.reduction = Reduction::none});
  add("leading dims", {2, 3, 4}, {});
  add("one row", {5}, {});
  add("size 1", {1, 1}, {});
  add("label smoothing", {4, 5}, {.label_smoothing = 0.2});
  add("ignored row", {4, 5}, {}, 2);
  add("ignored row, label smoothing, none", {4, 5},
      {.ignore_index = 1, .label_smoothing = 0.2, .reduction = Reduction::none}, 2);
  add("no rows", {0, 3}, {.reduction = Reduction::sum});
}

void add_elementwise_losses(Registry& registry) {
  Generator generator(33);
  for (const auto& [name, reduction] :
       {std::pair{"mean", Reduction::mean}, std::pair{"sum", Reduction::sum}, std::pair{"none", Reduction::none}}) {
    registry.differentiable.push_back(
        {"mse_loss",
         name,
         {randn({3, 4}, generator, DType::float64), randn({3, 4}, generator, DType::float64)},
         [reduction = reduction](const Inputs& in) { return mse_loss(in[0], in[1], reduction); }});
    registry.differentiable.push_back(
        {"binary_cross_entropy_with_logits",
         name,
         {randn({3, 4}, generator, DType::float64), rand({3, 4}, generator, DType::float64)},
         [reduction = reduction](const Inputs& in) {
           return binary_cross_entropy_with_logits(in[0], in[1], {}, reduction);
         }});
  }
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{0, 3}}) {
    registry.differentiable.push_back(
        {"mse_loss",
         to_string(shape),
         {randn(shape, generator, DType::float64), randn(shape, generator, DType::float64)},
         [](const Inputs& in) { return mse_loss(in[0], in[1], Reduction::sum); }});
    registry.differentiable.push_back(
        {"binary_cross_entropy_with_logits",
         to_string(shape),
         {randn(shape, generator, DType::float64), rand(shape, generator, DType::float64)},
         [](const Inputs& in) { return binary_cross_entropy_with_logits(in[0], in[1], {}, Reduction::sum); }});
  }
  registry.differentiable.push_back(
      {"binary_cross_entropy_with_logits",
       "pos_weight broadcast",
       {randn({3, 4}, generator, DType::float64), rand({3, 4}, generator, DType::float64),
        rand({4}, generator, DType::float64)},
       [](const Inputs& in) { return binary_cross_entropy_with_logits(in[0], in[1], in[2]); }});
}

}  // namespace

void add_layer_cases(Registry& registry) {
  add_normalisation(registry);
  add_cross_entropy(registry);
  add_elementwise_losses(registry);
  registry.exempt.emplace_back("accuracy", "returns a number");
}

}  // namespace linnet::test
