#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/files/npy.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <nlohmann/json.hpp>

#include "tests/ops/special_exceptions.h"
#include "tests/peers/named_ops.h"

/// For signed zeros, denormals, numbers with the smallest and largest exponents, infinities and NaN, results and
/// gradients must be PyTorch's. tests/goldens/special_cases.py made the inputs. Each case runs as a whole, which
/// fills vector registers; in parts, which do not; and on memory that is not contiguous.

namespace linnet::test {
namespace {

using Json = nlohmann::json;

constexpr const char* kFolder = LINNET_TEST_DATA "/goldens/special/";

/// The memory layout of an input.
enum class Layout { contiguous, strided };

Tensor laid_out(const Tensor& x, Layout layout) {
  if (layout == Layout::contiguous) return x.clone();
  if (x.rank() == 2) return x.transpose(0, 1).clone().transpose(0, 1);
  return stack({x, x}, -1).select(-1, 0);
}

/// The weight of each element in the sum that is differentiated: 1, 1.5, 2, 1, … along rows.
Tensor weights(const Tensor& result) {
  Doubles values(static_cast<size_t>(result.numel()), 1);
  if (result.rank() == 2) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 1 + 0.5 * static_cast<double>(i % static_cast<size_t>(result.size(1)) % 3);
    }
  }
  return tensor(values, result.shape()).to(result.dtype());
}

/// linnet's results for a case, by the golden's names.
TensorMap results_of(const Json& description, const std::vector<Tensor>& given, Layout layout) {
  const size_t constants = description["constants"];
  std::vector<Tensor> inputs, leaves;
  for (size_t i = 0; i < given.size(); ++i) {
    inputs.push_back(laid_out(given[i], layout));
    if (i + constants < given.size()) leaves.push_back(inputs.back().set_requires_grad());
  }
  TensorMap found;
  std::vector<Tensor> outputs;
  GradOptions options{.allow_unused = true};
  const std::vector<Tensor> results = peers::run(description["op"], inputs, description["arguments"]);
  for (size_t i = 0; i < results.size(); ++i) {
    found["output" + std::to_string(i)] = results[i].detach();
    if (!results[i].requires_grad()) continue;
    outputs.push_back(results[i]);
    options.grad_outputs.push_back(weights(results[i]));
  }
  if (outputs.empty()) return found;
  const std::vector<Tensor> gradients = grad(outputs, leaves, options);
  for (size_t i = 0; i < gradients.size(); ++i) {
    found["grad" + std::to_string(i)] = gradients[i].defined() ? gradients[i] : zeros_like(leaves[i]);
  }
  return found;
}

/// The allowed difference of a result from PyTorch's.
double tolerance(const Place& at) {
  const bool is_grad = at.result.starts_with("grad");
  const double epsilon = at.is_float32 ? 0x1p-23 : 0x1p-52, least = at.is_float32 ? 0x1p-149 : 0x1p-1074;
  double scale = std::abs(at.theirs);
  // These are differences of larger numbers.
  if (is_grad && (at.op == "softmax" || at.op == "log_softmax" || at.op == "cross_entropy")) scale = 2;
  if (at.op.ends_with("_norm")) scale = is_grad ? 400 : 1;
  return 16 * epsilon * std::max(scale, std::abs(at.theirs)) + 4 * least;
}

bool agrees(const Place& at) {
  if (std::isnan(at.theirs) || std::isinf(at.theirs)) return same(at.ours, at.theirs);
  if (at.ours == 0 && at.theirs == 0 && at.result.starts_with("output")) {
    return std::signbit(at.ours) == std::signbit(at.theirs);
  }
  return std::abs(at.ours - at.theirs) <= tolerance(at);
}

/// Compares results with those of PyTorch from element or row `begin` on.
class Comparison {
 public:
  Comparison(const Json& description, DType dtype, int number, const TensorMap& goldens)
      : description_(description), number_(fmt::format("{}.{}", name_of(dtype), number)), goldens_(goldens) {
    for (const std::string input : description["inputs"]) {
      inputs_.push_back(goldens.at(fmt::format("{}.{}", name_of(dtype), input)));
    }
    place_.op = description["op"];
    place_.is_float32 = dtype == DType::float32;
  }

  void compare(int64_t begin, int64_t count, Layout layout) {
    std::vector<Tensor> inputs;
    for (const Tensor& input : inputs_) inputs.push_back(input.narrow(0, begin, count));
    const TensorMap results = results_of(description_, inputs, layout);
    size_t compared = 0;
    for (const auto& [name, ours] : results) {
      const auto golden = goldens_.find(number_ + "." + name);
      if (golden == goldens_.end()) {  // a gradient that PyTorch does not have
        CHECK_MESSAGE(name.starts_with("grad"), place_.op, ": ", name);
        continue;
      }
      ++compared;
      compare(begin, name, ours, golden->second.narrow(0, begin, count));
    }
    const auto of_case = [&](const auto& golden) { return golden.first.starts_with(number_ + "."); };
    CHECK_MESSAGE(std::ranges::count_if(goldens_, of_case) == compared, place_.op);
  }
  int64_t count() const { return inputs_[0].size(0); }

 private:
  void compare(int64_t begin, const std::string& name, const Tensor& ours, const Tensor& theirs) {
    REQUIRE(ours.shape() == theirs.shape());
    REQUIRE(ours.dtype() == theirs.dtype());
    const Doubles x = values(ours.to(DType::float64)), y = values(theirs.to(DType::float64));
    const size_t columns = ours.rank() == 2 ? static_cast<size_t>(ours.size(1)) : 1;
    place_.result = name;
    for (size_t i = 0; i < x.size(); ++i) {
      place_.ours = x[i];
      place_.theirs = y[i];
      if (agrees(place_)) continue;
      place_.column = i % columns;
      place_.inputs.clear();
      for (const Tensor& input : inputs_) {
        const Tensor element = input.select(0, begin + static_cast<int64_t>(i / columns));
        place_.inputs.push_back(values(element.to(DType::float64).flatten()));
      }
      if (is_explained(place_)) continue;
      FAIL_CHECK(fmt::format("{} {}, {}[{}] of {}: {}, in PyTorch {}", description_["op"].get<std::string>(),
                             description_["arguments"].dump(), name, place_.column, fmt::join(place_.inputs, " "),
                             place_.ours, place_.theirs));
    }
  }

  const Json& description_;
  std::string number_;
  const TensorMap& goldens_;
  std::vector<Tensor> inputs_;
  Place place_;
};

}  // namespace

TEST_CASE("special values go where PyTorch's go, or an exception says why not") {
  std::ifstream file(std::string(kFolder) + "cases.json");
  const Json cases = Json::parse(file);
  const TensorMap goldens = read_npz(std::string(kFolder) + "values.npz");
  constexpr int64_t kPiece = 3;
  for (const DType dtype : {DType::float32, DType::float64}) {
    int number = 0;
    for (const Json& description : cases) {
      Comparison comparison(description, dtype, number++, goldens);
      for (const Layout layout : {Layout::contiguous, Layout::strided}) {
        comparison.compare(0, comparison.count(), layout);
      }
      for (int64_t begin = 0; begin < comparison.count(); begin += kPiece) {
        comparison.compare(begin, std::min(kPiece, comparison.count() - begin), Layout::contiguous);
      }
    }
  }
  for (const std::string& unused : unused_exceptions()) FAIL_CHECK("no case needs the exception: " << unused);
}

}  // namespace linnet::test
