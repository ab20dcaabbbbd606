#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/vision.h>
#include <linnet/ops/layers/activation.h>
#include <linnet/ops/layers/distance.h>
#include <linnet/ops/layers/pooling.h>

#include "tests/support/op_case.h"
#include "tests/support/values.h"

namespace linnet::test {
namespace {

using Inputs = std::vector<Tensor>;

Tensor ids(const Tensor& on_cpu) { return on_cpu.to(case_device()); }

}  // namespace

void add_vision_cases(Registry& registry) {
  const auto add = [&](const std::string& op, const std::string& variant, const std::vector<Shape>& shapes,
                       std::function<Tensor(const Inputs&)> f) {
    Generator generator(41);
    Inputs inputs;
    for (const Shape& shape : shapes) inputs.push_back(randn(shape, generator, DType::float64));
    registry.differentiable.push_back({op, variant, inputs, std::move(f)});
  };
  add("interpolate", "nearest", {{1, 2, 3, 2}},
      [](const Inputs& in) { return interpolate(in[0], {.size = {5, 3}}); });
  add("interpolate", "linear", {{2, 1, 4}},
      [](const Inputs& in) { return interpolate(in[0], {.scale_factor = {1.6}, .mode = InterpolateMode::linear}); });
  add("interpolate", "cubic, corners", {{1, 1, 4, 3}}, [](const Inputs& in) {
    return interpolate(in[0], {.size = {3, 5}, .mode = InterpolateMode::cubic, .align_corners = true});
  });
  add("adaptive_avg_pool2d", "overlapping windows", {{1, 2, 5, 4}},
      [](const Inputs& in) { return adaptive_avg_pool2d(in[0], {3, 3}); });
  add("pixel_shuffle", "", {{1, 8, 2, 3}}, [](const Inputs& in) { return pixel_shuffle(in[0], 2); });
  add("pixel_unshuffle", "", {{2, 1, 4, 2}}, [](const Inputs& in) { return pixel_unshuffle(in[0], 2); });
  for (const PadMode mode : {PadMode::reflect, PadMode::replicate, PadMode::circular}) {
    add("pad", std::to_string(static_cast<int>(mode)) + " of PadMode", {{2, 3, 4}},
        [mode](const Inputs& in) { return pad(in[0], {2, 1, 0, 2}, mode); });
  }
  add("index", "two indices", {{3, 4, 2}}, [](const Inputs& in) {
    return index(in[0], {ids(tensor({0, 2}, {2, 1}, DType::int64)), ids(tensor({1, 3, 1}, DType::int64))});
  });
  add("index_add", "an index twice", {{3, 4}, {3, 3}},
      [](const Inputs& in) { return index_add(in[0], 1, ids(tensor({2, 0, 2}, DType::int64)), in[1], -0.5); });
  add("prelu", "slopes of channels, broadcast", {{2, 3, 2}, {3}},
      [](const Inputs& in) { return prelu(in[0], in[1]); });
  add("normalize", "p = 2", {{2, 3, 2}}, [](const Inputs& in) { return normalize(in[0]); });
  add("pairwise_distance", "p = 3", {{2, 3}, {3}},
      [](const Inputs& in) { return pairwise_distance(in[0], in[1], 3); });
  add("cdist", "broadcast leading dims", {{2, 2, 3}, {4, 3}}, [](const Inputs& in) { return cdist(in[0], in[1]); });
  add("triplet_margin_loss", "swap", {{4, 3}, {4, 3}, {4, 3}},
      [](const Inputs& in) { return triplet_margin_loss(in[0], in[1], in[2], {.swap = true}); });
  add("margin_ranking_loss", "sum", {{4}, {4}}, [](const Inputs& in) {
    return margin_ranking_loss(in[0], in[1], ids(tensor({1, -1, -1, 1})), 0.5, Reduction::sum);
  });

  // Empty tensors, and dims of size 1.
  add("interpolate", "no images", {{0, 1, 4}},
      [](const Inputs& in) { return interpolate(in[0], {.size = {3}, .mode = InterpolateMode::linear}); });
  add("adaptive_avg_pool2d", "no images", {{0, 2, 5, 4}},
      [](const Inputs& in) { return adaptive_avg_pool2d(in[0], 1); });
  add("pixel_shuffle", "no images", {{0, 4, 1, 2}}, [](const Inputs& in) { return pixel_shuffle(in[0], 2); });
  add("pixel_unshuffle", "no images", {{0, 1, 2, 2}}, [](const Inputs& in) { return pixel_unshuffle(in[0], 2); });
  const auto rows = [](const Inputs& in) { return index(in[0], {ids(tensor({0, 0}, DType::int64))}); };
  add("index", "no columns", {{3, 0}}, rows);
  add("index", "one row", {{1, 4}}, rows);
  const auto added = [](const Inputs& in) { return index_add(in[0], 0, ids(tensor({0, 0}, DType::int64)), in[1]); };
  add("index_add", "no columns", {{3, 0}, {2, 0}}, added);
  add("index_add", "one row", {{1, 3}, {2, 3}}, added);
  add("prelu", "no rows", {{0, 3, 2}, {3}}, [](const Inputs& in) { return prelu(in[0], in[1]); });
  add("prelu", "one slope, broadcast", {{2, 1}, {1}}, [](const Inputs& in) { return prelu(in[0], in[1]); });
  for (const Shape& shape : {Shape{0, 3}, Shape{1, 3}}) {
    const std::string variant = "of " + to_string(shape);
    add("normalize", variant, {shape}, [](const Inputs& in) { return normalize(in[0]); });
    add("pairwise_distance", variant, {shape, {3}}, [](const Inputs& in) { return pairwise_distance(in[0], in[1]); });
    add("cdist", variant, {shape, {2, 3}}, [](const Inputs& in) { return cdist(in[0], in[1]); });
    add("triplet_margin_loss", variant, {shape, shape, shape},
        [](const Inputs& in) { return triplet_margin_loss(in[0], in[1], in[2], {.reduction = Reduction::none}); });
    add("margin_ranking_loss", variant, {shape, shape},
        [](const Inputs& in) { return margin_ranking_loss(in[0], in[1], ones_like(in[0]), 0.5, Reduction::none); });
  }
}

}  // namespace linnet::test
