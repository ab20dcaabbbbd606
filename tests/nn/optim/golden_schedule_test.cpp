#include <doctest/doctest.h>
#include <linnet/nn/optim/schedule.h>

#include "tests/support/goldens.h"
#include "tests/support/near.h"

using namespace linnet;
using namespace linnet::test;
using Json = nlohmann::json;

namespace {

nn::schedule::Decay decay(const Json& p) {
  return {.lr = p.at("lr"), .min_lr = p.at("min_lr"), .warmup = p.at("warmup"), .steps = p.at("steps")};
}

nn::Schedule warmup_cosine(const Json& p) { return nn::schedule::warmup_cosine(decay(p)); }

nn::Schedule warmup_linear(const Json& p) { return nn::schedule::warmup_linear(decay(p)); }

nn::Schedule inverse_sqrt(const Json& p) {
  return nn::schedule::inverse_sqrt({.lr = p.at("lr"), .warmup = p.at("warmup")});
}

nn::Schedule one_cycle(const Json& p) {
  return nn::schedule::one_cycle({.max_lr = p.at("max_lr"),
                                  .steps = p.at("steps"),
                                  .pct_start = p.at("pct_start"),
                                  .div_factor = p.at("div_factor"),
                                  .final_div_factor = p.at("final_div_factor")});
}

/// Every rate by itself: the last ones are too small to show in the norm of all.
Comparison rates(nn::Schedule (*make)(const Json& parameters)) {
  return [make](const Golden& golden, DType dtype) {
    const nn::Schedule rate = make(golden.parameters);
    const std::vector<double> expected = golden.get("lr").to_vector<double>();
    for (size_t step = 0; step < expected.size(); ++step) {
      CAPTURE(step);
      CHECK(rate(static_cast<int64_t>(step)) == near(expected[step], error_bound(golden, dtype)));
    }
  };
}

}  // namespace

TEST_CASE("The schedules agree with PyTorch and nanoGPT") {
  compare_goldens("schedules", DType::float64,
                  {{"warmup_cosine", rates(warmup_cosine)},
                   {"warmup_linear", rates(warmup_linear)},
                   {"inverse_sqrt", rates(inverse_sqrt)},
                   {"one_cycle", rates(one_cycle)}});
}
