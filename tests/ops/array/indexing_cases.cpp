#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/random.h>
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

  for (const int64_t diagonal : {-1, 0, 1, 5}) {
    const std::string variant = "diagonal " + std::to_string(diagonal);
    cases.add("tril", variant, {{3, 4}}, [=](auto& in) { return tril(in[0], diagonal); });
    cases.add("triu", variant, {{2, 4, 3}}, [=](auto& in) { return triu(in[0], diagonal); });
  }
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

}  // namespace

void add_indexing_cases(Registry& registry) {
  Cases cases(registry);
  add_index_cases(cases);
  add_join_cases(cases);
  add_sorting_cases(cases);

  registry.exempt.emplace_back("one_hot", "its input is an integer tensor");
  Generator generator(22);
  registry.non_differentiable.push_back(
      {"multinomial", {rand({2, 3}, generator, DType::float64)}, [](const Inputs& in) {
         Generator draws(1);
         return multinomial(in[0], 2, draws);
       }});
}

}  // namespace linnet::test
