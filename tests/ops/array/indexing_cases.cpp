#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/arrange.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/selection.h>
#include <linnet/ops/array/sorting.h>

#include "tests/support/op_case.h"

namespace linnet::test {
namespace {

using Inputs = std::vector<Tensor>;

/// Adds cases with random inputs of given shapes.
class Cases {
 public:
  explicit Cases(Registry& registry) : registry_(registry) {}

  void add(const std::string& op, const std::string& variant, const std::vector<Shape>& shapes,
           std::function<Tensor(const Inputs&)> f) {
    Inputs inputs;
    for (const Shape& shape : shapes) inputs.push_back(randn(shape, generator_, DType::float64));
    registry_.differentiable.push_back({op, variant, inputs, std::move(f)});
  }

 private:
  Registry& registry_;
  Generator generator_{21};
};

Tensor ids(const std::vector<int64_t>& values, const Shape& shape = {-1}) {
  return tensor(values, shape).to(case_device());
}

Tensor mask(std::initializer_list<double> values, const Shape& shape) {
  return tensor(values, shape, DType::boolean).to(case_device());
}

void add_index_cases(Cases& cases) {
  cases.add("embedding", "[2, 3] ids, some twice", {{4, 3}},
            [](auto& in) { return embedding(in[0], ids({0, 2, 2, 3, 0, 2}, {2, 3})); });
  cases.add("embedding", "int32 id of rank 0", {{4, 3}},
            [](auto& in) { return embedding(in[0], scalar(2, DType::int32).to(case_device())); });
  cases.add("embedding", "no ids", {{4, 3}}, [](auto& in) { return embedding(in[0], ids({}, {2, 0})); });
  cases.add("embedding", "size 1", {{1, 1}}, [](auto& in) { return embedding(in[0], ids({0, 0})); });

  cases.add("index_select", "first dim, some twice", {{3, 4}},
            [](auto& in) { return index_select(in[0], 0, ids({2, 0, 2})); });
  cases.add("index_select", "middle dim", {{2, 3, 2}},
            [](auto& in) { return index_select(in[0], 1, ids({1, 1, 0, 2})); });
  cases.add("index_select", "last dim", {{2, 3}}, [](auto& in) { return index_select(in[0], -1, ids({2, 2})); });
  cases.add("index_select", "rank 1", {{5}}, [](auto& in) { return index_select(in[0], 0, ids({4, 1, 4})); });
  cases.add("index_select", "no index", {{2, 3}}, [](auto& in) { return index_select(in[0], 1, ids({})); });
  cases.add("index_select", "empty", {{3, 0}}, [](auto& in) { return index_select(in[0], 0, ids({1, 1})); });

  cases.add("gather", "last dim", {{2, 3}}, [](auto& in) { return gather(in[0], -1, ids({2, 2, 0, 1}, {2, 2})); });
  cases.add("gather", "first dim, fewer columns", {{3, 4}},
            [](auto& in) { return gather(in[0], 0, ids({2, 2, 0, 1, 1, 1, 0, 0}, {4, 2})); });
  cases.add("gather", "middle dim", {{2, 3, 2}},
            [](auto& in) { return gather(in[0], 1, ids({2, 0, 1, 1}, {2, 1, 2})); });
  cases.add("gather", "empty", {{2, 3}}, [](auto& in) { return gather(in[0], 1, ids({}, {2, 0})); });

  cases.add("scatter_add", "last dim, some twice", {{2, 3}, {2, 4}},
            [](auto& in) { return scatter_add(in[0], 1, ids({2, 2, 0, 1, 0, 0, 0, 2}, {2, 4}), in[1]); });
  cases.add("scatter_add", "first dim, larger src", {{3, 3}, {4, 3}},
            [](auto& in) { return scatter_add(in[0], 0, ids({2, 2, 0, 1, 2, 1}, {3, 2}), in[1]); });
  cases.add("scatter_add", "middle dim", {{2, 3, 2}, {2, 2, 2}},
            [](auto& in) { return scatter_add(in[0], 1, ids({2, 0, 1, 1, 0, 0, 2, 2}, {2, 2, 2}), in[1]); });
  cases.add("scatter_add", "empty", {{2, 3}, {2, 0}},
            [](auto& in) { return scatter_add(in[0], 1, ids({}, {2, 0}), in[1]); });

  cases.add("scatter", "last dim", {{2, 3}, {2, 2}},
            [](auto& in) { return scatter(in[0], 1, ids({2, 0, 0, 1}, {2, 2}), in[1]); });
  cases.add("scatter", "first dim, some twice, larger src", {{3, 3}, {4, 3}},
            [](auto& in) { return scatter(in[0], 0, ids({2, 2, 0, 1, 2, 1}, {3, 2}), in[1]); });
  cases.add("scatter", "middle dim, some twice", {{2, 3, 2}, {2, 3, 2}},
            [](auto& in) { return scatter(in[0], 1, ids({2, 0, 2, 1, 0, 0, 2, 2, 2, 1, 1, 2}, {2, 3, 2}), in[1]); });
  cases.add("scatter", "one value", {{2, 3}},
            [](auto& in) { return scatter(in[0], -1, ids({2, 2, 0, 1}, {2, 2}), 7); });
  cases.add("scatter", "size 1", {{1, 1}, {1, 1}},
            [](auto& in) { return scatter(in[0], 1, ids({0}, {1, 1}), in[1]); });
  cases.add("scatter", "empty", {{2, 3}, {2, 0}}, [](auto& in) { return scatter(in[0], 1, ids({}, {2, 0}), in[1]); });

  cases.add("take_along_dim", "last dim", {{2, 3}},
            [](auto& in) { return take_along_dim(in[0], ids({2, 2, 0, 1}, {2, 2}), -1); });
  cases.add("take_along_dim", "broadcast", {{1, 3, 2}},
            [](auto& in) { return take_along_dim(in[0], ids({2, 0, 0, 1}, {4, 1, 1}), 1); });
  cases.add("take_along_dim", "no dim", {{2, 3}},
            [](auto& in) { return take_along_dim(in[0], ids({5, 0, 5, 1}, {2, 2})); });
  cases.add("take_along_dim", "empty", {{0, 3}},
            [](auto& in) { return take_along_dim(in[0], ids({1, 1}, {1, 2}), 1); });

  cases.add("index_put", "rows, one twice", {{3, 2}, {3, 2}},
            [](auto& in) { return index_put(in[0], {ids({2, 0, 2})}, in[1]); });
  cases.add("index_put", "two dims, broadcast", {{2, 3, 2}, {1, 2}},
            [](auto& in) { return index_put(in[0], {ids({0, 1}, {2, 1}), ids({2, 0})}, in[1]); });
  cases.add("index_put", "mask", {{2, 3}, {2}},
            [](auto& in) { return index_put(in[0], {mask({0, 1, 0, 0, 0, 1}, {2, 3})}, in[1]); });
  cases.add("index_put", "accumulate, one thrice", {{3, 2}, {4, 2}},
            [](auto& in) { return index_put(in[0], {ids({2, 0, 2, 2})}, in[1], true); });
  cases.add("index_put", "accumulate after a mask", {{2, 3}, {}},
            [](auto& in) { return index_put(in[0], {mask({0, 1}, {2}), ids({2})}, in[1], true); });
  cases.add("index_put", "empty", {{0, 3}, {0, 3}}, [](auto& in) { return index_put(in[0], {ids({})}, in[1]); });

  for (const int64_t diagonal : {-1, 0, 1, 5}) {
    const std::string variant = "diagonal " + std::to_string(diagonal);
    cases.add("tril", variant, {{3, 4}}, [=](auto& in) { return tril(in[0], diagonal); });
    cases.add("triu", variant, {{2, 4, 3}}, [=](auto& in) { return triu(in[0], diagonal); });
    cases.add("diag", "of a vector, " + variant, {{3}}, [=](auto& in) { return diag(in[0], diagonal); });
    cases.add("diag", "of a matrix, " + variant, {{3, 4}}, [=](auto& in) { return diag(in[0], diagonal); });
  }
  cases.add("diag", "size 1", {{1}}, [](auto& in) { return diag(in[0]); });
  cases.add("diag", "empty", {{0}}, [](auto& in) { return diag(in[0], 1); });
  cases.add("trace", "matrix", {{3, 2}}, [](auto& in) { return trace(in[0]); });
  cases.add("trace", "size 1", {{1, 1}}, [](auto& in) { return trace(in[0]); });
  cases.add("trace", "empty", {{0, 2}}, [](auto& in) { return trace(in[0]); });
  cases.add("tril", "size 1", {{1, 1}}, [](auto& in) { return tril(in[0]); });
  cases.add("triu", "empty", {{0, 3}}, [](auto& in) { return triu(in[0]); });
}

void add_join_cases(Cases& cases) {
  cases.add("concat", "first dim", {{1, 3}, {2, 3}, {0, 3}}, [](auto& in) { return concat(in); });
  cases.add("concat", "last dim", {{2, 1}, {2, 3}}, [](auto& in) { return concat(in, -1); });
  cases.add("concat", "middle dim", {{2, 1, 2}, {2, 2, 2}}, [](auto& in) { return concat(in, 1); });
  cases.add("concat", "one tensor, twice", {{3}}, [](auto& in) { return concat({in[0], in[0]}); });
  cases.add("stack", "first dim", {{2, 3}, {2, 3}}, [](auto& in) { return stack(in); });
  cases.add("stack", "last dim", {{2, 3}, {2, 3}}, [](auto& in) { return stack(in, -1); });
  cases.add("stack", "rank 0", {{}, {}}, [](auto& in) { return stack(in); });
  cases.add("stack", "empty", {{0}, {0}}, [](auto& in) { return stack(in, 1); });
  cases.add("pad", "two dims", {{2, 3}}, [](auto& in) { return pad(in[0], {1, 2, 0, 1}, 7); });
  cases.add("pad", "last dim of three", {{2, 3, 2}}, [](auto& in) { return pad(in[0], {0, 1}); });
  cases.add("pad", "nothing", {{2}}, [](auto& in) { return pad(in[0], {}); });
  cases.add("pad", "empty", {{0}}, [](auto& in) { return pad(in[0], {1, 1}); });
}

void add_sorting_cases(Cases& cases) {
  cases.add("sort", "last dim", {{3, 4}}, [](auto& in) { return sort(in[0]).values; });
  cases.add("sort", "first dim, descending", {{3, 4}}, [](auto& in) { return sort(in[0], 0, true).values; });
  cases.add("sort", "size 1", {{2, 1}}, [](auto& in) { return sort(in[0]).values; });
  cases.add("sort", "rank 0", {{}}, [](auto& in) { return sort(in[0]).values; });
  cases.add("sort", "empty", {{2, 0}}, [](auto& in) { return sort(in[0]).values; });
  cases.add("topk", "last dim", {{3, 4}}, [](auto& in) { return topk(in[0], 2).values; });
  cases.add("topk", "smallest, first dim", {{3, 4}}, [](auto& in) { return topk(in[0], 2, 0, false).values; });
  cases.add("topk", "k = 0", {{3}}, [](auto& in) { return topk(in[0], 0).values; });
}

void add_arrangement_cases(Cases& cases) {
  cases.add("flip", "last dim", {{2, 3}}, [](auto& in) { return flip(in[0], -1); });
  cases.add("flip", "two dims", {{2, 3, 2}}, [](auto& in) { return flip(in[0], {2, 0}); });
  cases.add("flip", "no dim", {{2}}, [](auto& in) { return flip(in[0], {}); });
  cases.add("flip", "size 1", {{1, 2}}, [](auto& in) { return flip(in[0], 0); });
  cases.add("flip", "empty", {{2, 0}}, [](auto& in) { return flip(in[0], {0, 1}); });
  cases.add("roll", "two dims", {{3, 4}}, [](auto& in) { return roll(in[0], {1, -6}, {0, 1}); });
  cases.add("roll", "no dim", {{2, 3}}, [](auto& in) { return roll(in[0], 2); });
  cases.add("roll", "size 1", {{1}}, [](auto& in) { return roll(in[0], 2, 0); });
  cases.add("roll", "empty", {{0, 2}}, [](auto& in) { return roll(in[0], 1, 0); });
  cases.add("repeat", "old and new dims", {{2, 1, 3}}, [](auto& in) { return repeat(in[0], {2, 1, 3, 2}); });
  cases.add("repeat", "rank 0", {{}}, [](auto& in) { return repeat(in[0], {2, 2}); });
  cases.add("repeat", "empty", {{0, 2}}, [](auto& in) { return repeat(in[0], {2, 1}); });
  cases.add("tile", "last dim", {{2, 1, 2}}, [](auto& in) { return tile(in[0], 3); });
  cases.add("tile", "empty", {{2, 0}}, [](auto& in) { return tile(in[0], {2, 2, 2}); });
  cases.add("repeat_interleave", "first dim", {{2, 3}}, [](auto& in) { return repeat_interleave(in[0], 3, 0); });
  cases.add("repeat_interleave", "no dim", {{2, 1}}, [](auto& in) { return repeat_interleave(in[0], 2); });
  cases.add("repeat_interleave", "each its own number", {{2, 3}},
            [](auto& in) { return repeat_interleave(in[0], ids({2, 0, 3}), -1); });
  cases.add("repeat_interleave", "empty", {{0, 2}}, [](auto& in) { return repeat_interleave(in[0], ids({2}), 0); });
  cases.add("unbind", "first dim", {{2, 3}}, [](auto& in) { return unbind(in[0])[1]; });
  cases.add("unbind", "last dim", {{2, 3, 2}}, [](auto& in) { return mul(unbind(in[0], -1)[0], 3); });
  cases.add("unbind", "size 1", {{1, 2}}, [](auto& in) { return unbind(in[0]).front(); });
  cases.add("unbind", "empty", {{0, 2}}, [](auto& in) { return unbind(in[0], 1).back(); });
  cases.add("movedim", "one dim", {{2, 3, 4}}, [](auto& in) { return movedim(in[0], 0, -1); });
  cases.add("movedim", "two dims, size 1", {{2, 1, 3, 4}}, [](auto& in) { return movedim(in[0], {3, 0}, {0, 2}); });
  cases.add("movedim", "empty", {{0, 2}}, [](auto& in) { return movedim(in[0], 1, 0); });
  for (const Shape& shape : {Shape{2, 3}, Shape{1, 3}, Shape{0, 3}}) {
    const std::string variant = to_string(shape);
    const Tensor stacked = zeros({2, shape[0], 3}), flat = zeros({shape.numel()});
    cases.add("expand_as", variant, {shape}, [=](auto& in) { return expand_as(in[0], stacked); });
    cases.add("reshape_as", variant, {shape}, [=](auto& in) { return reshape_as(in[0].t(), flat); });
    cases.add("view_as", variant, {shape}, [=](auto& in) { return view_as(in[0].contiguous(), flat); });
  }
  for (const char* indexing : {"ij", "xy"}) {
    const auto grid = [=](auto& in) {
      const std::vector<Tensor> grids = meshgrid(in, indexing);
      return mul(grids.front(), grids.back());
    };
    cases.add("meshgrid", std::string("two, ") + indexing, {{2}, {3}}, grid);
    cases.add("meshgrid", std::string("three, broadcast, ") + indexing, {{2}, {1}, {}}, grid);
    cases.add("meshgrid", std::string("empty, ") + indexing, {{0}, {2}}, grid);
  }
}

void add_selection_cases(Cases& cases) {
  cases.add("masked_select", "one shape", {{2, 3}},
            [](auto& in) { return masked_select(in[0], mask({0, 1, 1, 0, 0, 1}, {2, 3})); });
  cases.add("masked_select", "broadcast", {{2, 1}},
            [](auto& in) { return masked_select(in[0], mask({1, 1, 0}, {3})); });
  cases.add("masked_select", "nothing", {{3}}, [](auto& in) { return masked_select(in[0], mask({0, 0, 0}, {3})); });
  cases.add("masked_select", "empty", {{0, 2}}, [](auto& in) { return masked_select(in[0], mask({1, 0}, {2})); });
  cases.add("unique", "different elements", {{2, 3}}, [](auto& in) { return unique(in[0]).values; });
  cases.add("unique", "size 1", {{1}}, [](auto& in) { return unique(in[0]).values; });
  cases.add("unique", "empty", {{0, 2}}, [](auto& in) { return unique(in[0]).values; });
  cases.add("bincount", "weights", {{5}}, [](auto& in) { return bincount(ids({3, 0, 3, 1, 0}), in[0], 6); });
  cases.add("bincount", "size 1", {{1}}, [](auto& in) { return bincount(ids({2}), in[0]); });
  cases.add("bincount", "empty", {{0}}, [](auto& in) { return bincount(ids({}), in[0]); });
}

}  // namespace

void add_indexing_cases(Registry& registry) {
  Cases cases(registry);
  add_index_cases(cases);
  add_join_cases(cases);
  add_sorting_cases(cases);
  add_arrangement_cases(cases);
  add_selection_cases(cases);

  registry.exempt.emplace_back("one_hot", "its input is an integer tensor");
  registry.exempt.emplace_back("take_along_axis", "it only says what to write instead");
  Generator generator(22);
  const Tensor x = randn({4}, generator, DType::float64);
  registry.non_differentiable.push_back({"argsort", {x}, [](const Inputs& in) { return argsort(in[0]); }});
  registry.non_differentiable.push_back({"nonzero", {x}, [](const Inputs& in) { return nonzero(in[0]); }});
  registry.non_differentiable.push_back(
      {"searchsorted", {sort(x).values, x}, [](const Inputs& in) { return searchsorted(in[0], in[1]); }});
  registry.non_differentiable.push_back(
      {"multinomial", {rand({2, 3}, generator, DType::float64)}, [](const Inputs& in) {
         Generator draws(1);
         return multinomial(in[0], 2, draws);
       }});
}

}  // namespace linnet::test
