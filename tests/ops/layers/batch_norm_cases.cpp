#include <linnet/ops/layers/batch_norm.h>

#include "tests/support/op_case.h"
#include "tests/support/values.h"

namespace linnet::test {
namespace {

using Inputs = std::vector<Tensor>;

/// x, and if `affine` weight and bias for its channels.
Inputs draw_norm(const Shape& x, bool affine) {
  Inputs inputs{uniform(x, 81)};
  if (affine) inputs.insert(inputs.end(), {uniform({x[1]}, 82), uniform({x[1]}, 83)});
  return inputs;
}

Tensor weight_of(const Inputs& in) { return in.size() > 1 ? in[1] : Tensor(); }
Tensor offsets_of(const Inputs& in) { return in.size() > 1 ? in[2] : Tensor(); }

}  // namespace

void add_batch_norm_cases(Registry& registry) {
  const auto batch = [&](const std::string& variant, const Shape& x, bool training, bool affine = true) {
    registry.differentiable.push_back(
        {"batch_norm", variant, draw_norm(x, affine), [training](const Inputs& in) {
           const Shape channels{in[0].size(1)};
           const auto like_x = [&](const Tensor& t) { return t.to(in[0].dtype()).to(in[0].device()); };
           const Tensor running_mean = like_x(uniform(channels, 84)),
                        running_var = like_x(uniform(channels, 85, 1, 2));
           return batch_norm(in[0], running_mean, running_var, weight_of(in), offsets_of(in), training);
         }});
  };
  batch("training, rows, broadcast", {6, 3}, true);
  batch("training, few pixels", {3, 2, 4}, true);
  batch("training, images", {2, 2, 3, 6}, true);
  batch("training, one image, no weight", {1, 2, 3, 2}, true, false);
  batch("evaluation, rows, broadcast", {4, 3}, false);
  batch("evaluation, images", {2, 2, 3, 6}, false);
  batch("evaluation, no weight", {2, 3, 2}, false, false);
  batch("evaluation, size 1", {1, 1, 1}, false);
  batch("evaluation, empty", {0, 3, 2}, false);

  const auto group = [&](const std::string& variant, const Shape& x, int64_t num_groups, bool affine = true) {
    registry.differentiable.push_back({"group_norm", variant, draw_norm(x, affine), [num_groups](const Inputs& in) {
                                         return group_norm(in[0], num_groups, weight_of(in), offsets_of(in));
                                       }});
  };
  group("rows, broadcast", {2, 6}, 2);
  group("few pixels", {2, 4, 3}, 2);
  group("images", {2, 4, 3, 6}, 2);
  group("one group, no weight", {2, 3, 2, 2}, 1, false);
  group("size 1", {1, 4, 1}, 1);
  group("empty", {0, 4, 2}, 2);
}

}  // namespace linnet::test
