#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/layers/recurrent.h>

#include "tests/support/op_case.h"
#include "tests/support/values.h"

namespace linnet::test {
namespace {

using Inputs = std::vector<Tensor>;

/// T, B, the width of x and H.
struct RecurrentSizes {
  int64_t steps, batch, input, width;
};

/// x, the first states, the weights and, if the case has them, the biases.
Inputs draw_recurrent(const RecurrentSizes& s, int64_t gates, int states, bool bias) {
  Inputs inputs{uniform({s.steps, s.batch, s.input}, 81)};
  for (int i = 0; i < states; ++i) inputs.push_back(uniform({s.batch, s.width}, 82 + static_cast<uint64_t>(i)));
  inputs.push_back(uniform({gates * s.width, s.input}, 84));
  inputs.push_back(uniform({gates * s.width, s.width}, 85));
  if (bias) inputs.push_back(uniform({gates * s.width}, 86));
  if (bias) inputs.push_back(uniform({gates * s.width}, 87));
  return inputs;
}

/// All results in one tensor, so that each has a cotangent.
Tensor joined(const std::vector<Tensor>& results) {
  std::vector<Tensor> flat;
  for (const Tensor& result : results) flat.push_back(result.flatten());
  return concat(flat, 0);
}

}  // namespace

void add_recurrent_cases(Registry& registry) {
  const auto add = [&](const std::string& variant, const RecurrentSizes& sizes, bool states, bool bias,
                       const std::vector<int64_t>& lengths = {}, bool reverse = false) {
    RecurrentOptions options{.reverse = reverse};
    if (!lengths.empty()) options.lengths = tensor(lengths).to(case_device());
    registry.differentiable.push_back({"gru", variant, draw_recurrent(sizes, 3, states ? 1 : 0, bias),
                                       [=](const Inputs& in) {
                                         const size_t w = states ? 2 : 1;
                                         const GRUResult result =
                                             gru(in[0], states ? in[1] : Tensor(), in[w], in[w + 1],
                                                 bias ? in[w + 2] : Tensor(), bias ? in[w + 3] : Tensor(), options);
                                         return joined({result.output, result.h_n});
                                       },
                                       false});
    registry.differentiable.push_back({"lstm", variant, draw_recurrent(sizes, 4, states ? 2 : 0, bias),
                                       [=](const Inputs& in) {
                                         const size_t w = states ? 3 : 1;
                                         const LSTMResult result =
                                             lstm(in[0], states ? in[1] : Tensor(), states ? in[2] : Tensor(), in[w],
                                                  in[w + 1], bias ? in[w + 2] : Tensor(), bias ? in[w + 3] : Tensor(),
                                                  options);
                                         return joined({result.output, result.h_n, result.c_n});
                                       },
                                       false});
  };
  add("states and biases", {3, 2, 3, 4}, true, true);
  add("no states, no biases", {2, 3, 2, 3}, false, false);
  add("reverse", {3, 2, 2, 3}, true, true, {}, true);
  add("lengths", {4, 3, 2, 2}, true, true, {2, 4, 1});
  add("reverse, lengths", {4, 3, 2, 2}, true, true, {2, 4, 1}, true);
  add("size 1", {1, 1, 1, 1}, true, true);
  add("no sequences", {2, 0, 2, 3}, true, true);
}

}  // namespace linnet::test
