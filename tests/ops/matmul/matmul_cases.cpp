#include <linnet/ops/array/random.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/support/op_case.h"

namespace linnet::test {
namespace {

using Inputs = std::vector<Tensor>;

void add_products(Registry& registry) {
  Generator generator(21);
  const auto add = [&](const std::string& variant, const Shape& a, const Shape& b) {
    registry.differentiable.push_back({"matmul",
                                       variant,
                                       {randn(a, generator, DType::float64), randn(b, generator, DType::float64)},
                                       [](const Inputs& in) { return matmul(in[0], in[1]); }});
  };
  add("matrices", {3, 4}, {4, 2});
  add("batch", {2, 3, 4}, {2, 4, 2});
  add("two batch dims", {2, 3, 2, 2}, {2, 3, 2, 3});
  add("rows of a batch", {2, 3, 4}, {4, 2});
  add("one matrix before a batch", {3, 4}, {2, 4, 2});
  add("broadcast", {2, 1, 3, 2}, {3, 2, 2});
  add("vector · vector", {4}, {4});
  add("vector · matrix", {4}, {4, 3});
  add("vector · batch", {4}, {2, 4, 3});
  add("matrix · vector", {3, 4}, {4});
  add("batch · vector", {2, 3, 4}, {4});
  add("size 1", {1, 1}, {1, 1});
  add("no rows", {0, 3}, {3, 2});
  add("empty sum", {2, 0}, {0, 3});
  add("empty batch", {0, 2, 3}, {3, 2});

  registry.differentiable.push_back(
      {"matmul",
       "transposed operands",
       {randn({4, 3}, generator, DType::float64), randn({2, 4}, generator, DType::float64)},
       [](const Inputs& in) { return matmul(transpose(in[0]), transpose(in[1])); }});
}

void add_outer(Registry& registry) {
  Generator generator(24);
  const auto add = [&](const std::string& variant, const Shape& a, const Shape& b) {
    registry.differentiable.push_back({"outer",
                                       variant,
                                       {randn(a, generator, DType::float64), randn(b, generator, DType::float64)},
                                       [](const Inputs& in) { return outer(in[0], in[1]); }});
  };
  add("two lengths", {3}, {4});
  add("size 1, broadcast", {3}, {1});
  add("empty", {0}, {2});
}

void add_linear(Registry& registry) {
  Generator generator(22);
  const auto add = [&](const std::string& variant, const Shape& x, const Shape& weight, bool bias) {
    Inputs inputs{randn(x, generator, DType::float64), randn(weight, generator, DType::float64)};
    if (bias) inputs.push_back(randn({weight[0]}, generator, DType::float64));
    registry.differentiable.push_back({"linear", variant, inputs, [bias](const Inputs& in) {
                                         return linear(in[0], in[1], bias ? in[2] : Tensor());
                                       }});
  };
  add("rows", {3, 4}, {2, 4}, true);
  add("no bias", {3, 4}, {2, 4}, false);
  add("leading dims", {2, 3, 4}, {2, 4}, true);
  add("vector", {4}, {3, 4}, true);
  add("size 1", {1, 1}, {1, 1}, true);
  add("no rows", {0, 3}, {2, 3}, true);
  add("no inputs", {2, 0}, {3, 0}, true);
}

void add_einsum(Registry& registry) {
  Generator generator(23);
  const auto add = [&](const std::string& equation, const Shape& a, const Shape& b) {
    registry.differentiable.push_back({"einsum",
                                       equation,
                                       {randn(a, generator, DType::float64), randn(b, generator, DType::float64)},
                                       [equation](const Inputs& in) { return einsum(equation, in[0], in[1]); }});
  };
  const auto add_all = [&](const std::string& equation, const std::vector<Shape>& shapes) {
    Inputs inputs;
    for (const Shape& shape : shapes) inputs.push_back(randn(shape, generator, DType::float64));
    registry.differentiable.push_back(
        {"einsum", equation, std::move(inputs), [equation](const Inputs& in) { return einsum(equation, in); }});
  };
  add("ij,jk->ik", {2, 3}, {3, 4});
  add("ij,jk", {2, 3}, {3, 4});
  add("bij,bjk->bik", {2, 2, 3}, {2, 3, 2});
  add("bhid,bhjd->bhij", {2, 2, 3, 2}, {2, 2, 2, 2});
  add("ji,kj->ki", {3, 2}, {4, 3});
  add("i,j->ij", {3}, {2});
  add("i,i->", {4}, {4});
  add("i,i->i", {4}, {4});
  add_all("ii->i", {{3, 3}});
  add_all("iij->", {{2, 2, 3}});
  add_all("ii,ij->j", {{2, 2}, {2, 3}});
  add_all("ij,jk,kl->il", {{2, 3}, {3, 2}, {2, 4}});
  add_all("...ij,...jk", {{2, 1, 2, 3}, {2, 3, 2}});
  add_all("i...,ij->j", {{2, 3}, {1, 2}});
  add("ija,jb->bi", {2, 3, 2}, {3, 2});  // 'a' is summed within the first tensor
  add(",i->i", {}, {3});
  add("ij,jk->ik", {0, 3}, {3, 2});
  add("ij,jk->ik", {2, 0}, {0, 2});
  add("ij,jk->ik", {1, 1}, {1, 1});
}

void add_transpose(Registry& registry) {
  Generator generator(24);
  const auto add = [&](const std::string& variant, const Shape& shape) {
    registry.differentiable.push_back(
        {"transpose", variant, {randn(shape, generator, DType::float64)}, [](const Inputs& in) {
           return transpose(in[0]);
         }});
  };
  add("matrix", {2, 3});
  add("batch", {2, 3, 4});
  add("empty", {0, 3});
  add("size 1", {1, 1});
}

}  // namespace

void add_matmul_cases(Registry& registry) {
  add_products(registry);
  add_outer(registry);
  add_linear(registry);
  add_einsum(registry);
  add_transpose(registry);
}

}  // namespace linnet::test
