#include <tuple>

#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/layers/loss.h>
#include <linnet/ops/layers/normalisation.h>

#include "tests/support/op_case.h"
#include "tests/support/values.h"

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
           return binary_cross_entropy_with_logits(in[0], in[1], {.reduction = reduction});
         }});
    registry.differentiable.push_back({"binary_cross_entropy",
                                       name,
                                       {uniform({3, 4}, 35, 0.1, 0.9), uniform({3, 4}, 36, 0.1, 0.9)},
                                       [reduction = reduction](const Inputs& in) {
                                         return binary_cross_entropy(in[0], in[1], {.reduction = reduction});
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
         [](const Inputs& in) {
           return binary_cross_entropy_with_logits(in[0], in[1], {.reduction = Reduction::sum});
         }});
    registry.differentiable.push_back(
        {"binary_cross_entropy",
         to_string(shape),
         {uniform(shape, 37, 0.1, 0.9), uniform(shape, 38, 0.1, 0.9)},
         [](const Inputs& in) { return binary_cross_entropy(in[0], in[1], {.reduction = Reduction::sum}); }});
  }
  registry.differentiable.push_back(
      {"binary_cross_entropy_with_logits",
       "weight and pos_weight broadcast",
       {randn({3, 4}, generator, DType::float64), rand({3, 4}, generator, DType::float64),
        rand({4}, generator, DType::float64), rand({3, 1}, generator, DType::float64)},
       [](const Inputs& in) {
         return binary_cross_entropy_with_logits(in[0], in[1], {.weight = in[3], .pos_weight = in[2]});
       }});
  registry.differentiable.push_back(
      {"binary_cross_entropy",
       "weight broadcast",
       {uniform({3, 4}, 39, 0.1, 0.9), uniform({3, 4}, 40, 0.1, 0.9), uniform({4}, 41)},
       [](const Inputs& in) { return binary_cross_entropy(in[0], in[1], {.weight = in[2]}); }});
}

void add_nll(Registry& registry) {
  Generator generator(34);
  const auto add = [&](const std::string& variant, const Shape& scores, const NllLossOptions& options,
                       bool weighted = false, int64_t ignored_row = -1) {
    const int64_t classes = scores[scores.rank() - 1];
    Tensor targets = randint(0, classes, Shape(scores.begin(), scores.end() - 1), generator);
    if (ignored_row >= 0) targets.mutable_data<int64_t>()[static_cast<size_t>(ignored_row)] = options.ignore_index;
    Inputs inputs{randn(scores, generator, DType::float64)};
    if (weighted) inputs.push_back(rand({classes}, generator, DType::float64));
    registry.differentiable.push_back(
        {"nll_loss", variant, inputs, [targets = targets.to(case_device()), options](const Inputs& in) {
           NllLossOptions all = options;
           if (in.size() > 1) all.weight = in[1];
           return nll_loss(in[0], targets, all);
         }});
  };
  add("mean", {4, 5}, {});
  add("sum", {4, 5}, {.reduction = Reduction::sum});
  add("none", {2, 3, 4}, {.reduction = Reduction::none});
  add("one row", {5}, {});
  add("size 1", {1, 1}, {});
  add("weight", {4, 5}, {}, true);
  add("weight, ignored row, none", {4, 5}, {.ignore_index = 1, .reduction = Reduction::none}, true, 2);
  add("ignored row", {4, 5}, {}, false, 2);
  add("no rows", {0, 3}, {.reduction = Reduction::sum});
}

/// Losses of an input and a target of the same shape. Their differences are not near 0, 0.5 or 1, where second
/// derivatives jump.
void add_losses_of_differences(Registry& registry) {
  using Loss = std::function<Tensor(const Tensor& input, const Tensor& target, Reduction reduction)>;
  const auto add = [&](const std::string& op, const std::string& option, const Loss& loss) {
    const auto add_one = [&](const std::string& variant, Tensor input, Tensor target, Reduction reduction) {
      registry.differentiable.push_back(
          {op, option + variant, {std::move(input), std::move(target)}, [loss, reduction](const Inputs& in) {
             return loss(in[0], in[1], reduction);
           }});
    };
    const Tensor target = tensor({0.3, -0.2, 0.9, 0.6, -1.1, 0.4}, {2, 3}, DType::float64);
    const Tensor difference = tensor({0.2, -0.3, 0.8, -0.7, 1.6, -2.1}, {2, 3}, DType::float64);
    add_one("mean", target + difference, target, Reduction::mean);
    add_one("sum", target + difference, target, Reduction::sum);
    add_one("none", target + difference, target, Reduction::none);
    add_one("rank 0", scalar(0.7, DType::float64), scalar(0.3, DType::float64), Reduction::mean);
    add_one("size 1", tensor({0.7}, DType::float64), tensor({0.3}, DType::float64), Reduction::mean);
    add_one("empty", zeros({0, 3}, DType::float64), zeros({0, 3}, DType::float64), Reduction::sum);
  };
  add("l1_loss", "", [](auto& x, auto& t, Reduction r) { return l1_loss(x, t, r); });
  for (const double delta : {0.5, 1.0}) {
    const std::string option = std::to_string(delta) + ", ";
    add("huber_loss", option, [=](auto& x, auto& t, Reduction r) { return huber_loss(x, t, r, delta); });
    add("smooth_l1_loss", option, [=](auto& x, auto& t, Reduction r) { return smooth_l1_loss(x, t, r, delta); });
  }
  add("smooth_l1_loss", "0, ", [](auto& x, auto& t, Reduction r) { return smooth_l1_loss(x, t, r, 0); });
  add("kl_div", "", [](auto& x, auto& t, Reduction r) { return kl_div(x, exp(t), r); });
  add("kl_div", "log_target, ", [](auto& x, auto& t, Reduction r) { return kl_div(x, t, r, true); });
  add("kl_div", "batchmean, ", [](auto& x, auto& t, Reduction r) {
    return kl_div(x, exp(t), r == Reduction::mean ? Reduction::batchmean : r);
  });
  add("gaussian_nll_loss", "",
      [](auto& x, auto& t, Reduction r) { return gaussian_nll_loss(x, t, exp(x), {.reduction = r}); });
}

void add_gaussian_nll(Registry& registry) {
  Generator generator(35);
  for (const auto& [variant, shape] : {std::pair{"each", Shape{2, 3}}, std::pair{"broadcast rows", Shape{2}},
                                       std::pair{"broadcast columns", Shape{1, 3}}}) {
    registry.differentiable.push_back(
        {"gaussian_nll_loss",
         variant,
         {randn({2, 3}, generator, DType::float64), randn({2, 3}, generator, DType::float64),
          rand(shape, generator, DType::float64) + 0.5},
         [](const Inputs& in) { return gaussian_nll_loss(in[0], in[1], in[2], {.full = true}); }});
  }
}

void add_losses_of_pairs(Registry& registry) {
  const auto hinge = [&](const std::string& variant, const Tensor& distances, double margin, Reduction reduction) {
    Tensor signs = ones(distances.shape(), DType::int64);
    if (signs.rank() > 0) signs.slice(0, 0, signs.size(0), 2).fill_(-1);
    registry.differentiable.push_back(
        {"hinge_embedding_loss", variant, {distances}, [=, signs = signs.to(case_device())](const Inputs& in) {
           return hinge_embedding_loss(in[0], signs, margin, reduction);
         }});
  };
  const Tensor distances = tensor({0.2, 1.7, -0.4, 0.8, 2.3, 0.6}, {3, 2}, DType::float64);
  hinge("mean", distances, 1, Reduction::mean);
  hinge("sum", distances, 1, Reduction::sum);
  hinge("margin, none", distances, 0.5, Reduction::none);
  hinge("rank 0", scalar(0.3, DType::float64), 1, Reduction::mean);
  hinge("size 1", tensor({0.3}, DType::float64), 1, Reduction::mean);
  hinge("empty", zeros({0, 2}, DType::float64), 1, Reduction::sum);

  Generator generator(36);
  const auto add = [&](const std::string& variant, const Shape& shape, double margin, Reduction reduction) {
    Tensor signs = ones(Shape(shape.begin(), shape.end() - 1), DType::int64);
    if (signs.rank() > 0) signs.slice(0, 0, signs.size(0), 2).fill_(-1);
    registry.differentiable.push_back(
        {"cosine_embedding_loss",
         variant,
         {randn(shape, generator, DType::float64), randn(shape, generator, DType::float64)},
         [=, signs = signs.to(case_device())](const Inputs& in) {
           return cosine_embedding_loss(in[0], in[1], signs, margin, reduction);
         }});
  };
  add("mean", {5, 3}, 0, Reduction::mean);
  add("sum", {5, 3}, 0, Reduction::sum);
  add("margin, none", {2, 2, 3}, -0.5, Reduction::none);
  add("one pair", {4}, 0, Reduction::mean);
  add("size 1", {1, 3}, 0, Reduction::mean);
  add("no pairs", {0, 3}, 0, Reduction::sum);

  for (const auto& [x1, x2, dim] :
       {std::tuple{Shape{3, 4}, Shape{3, 4}, 1}, std::tuple{Shape{2, 3, 2}, Shape{3, 1}, 1},
        std::tuple{Shape{5}, Shape{5}, 0}, std::tuple{Shape{1, 3}, Shape{1, 3}, -1},
        std::tuple{Shape{0, 3}, Shape{0, 3}, 1}}) {
    registry.differentiable.push_back(
        {"cosine_similarity",
         to_string(x1) + " and " + to_string(x2),
         {randn(x1, generator, DType::float64), randn(x2, generator, DType::float64)},
         [dim = dim](const Inputs& in) { return cosine_similarity(in[0], in[1], dim); }});
  }
}

}  // namespace

void add_layer_cases(Registry& registry) {
  add_normalisation(registry);
  add_cross_entropy(registry);
  add_elementwise_losses(registry);
  add_nll(registry);
  add_losses_of_differences(registry);
  add_gaussian_nll(registry);
  add_losses_of_pairs(registry);
  registry.exempt.emplace_back("accuracy", "returns a number");
}

}  // namespace linnet::test
