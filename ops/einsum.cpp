#include <algorithm>
#include <cctype>
#include <string>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/matmul.h>
#include <linnet/ops/reduction.h>

/// einsum as one batched matmul: labels of both tensors are batch dims when they are in the result, and inner
/// dims when they are not.

namespace linnet {
namespace {

/// "ij,jk->ik" in its three terms.
struct Equation {
  std::string a, b, out;
};

bool contains(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

void check_term(const std::string& term, std::string_view equation) {
  for (size_t i = 0; i < term.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(term[i])) == 0) {
      throw ValueError(
          fmt::format("\"{}\" has '{}' where a label should be; labels are letters, as in "
                      "\"bij,bjk->bik\"",
                      equation, term[i]));
    }
    if (term.find(term[i], i + 1) != std::string::npos) {
      throw ValueError(
          fmt::format("\"{}\" has label '{}' twice in one term; diagonals are not supported", equation, term[i]));
    }
  }
}

/// The labels that occur in one of the operands only, in alphabetical order.
std::string implicit_output(const std::string& a, const std::string& b) {
  std::string out;
  for (const char label : a + b) {
    if (contains(a, label) != contains(b, label)) out += label;
  }
  std::sort(out.begin(), out.end());
  return out;
}

Equation parse(std::string_view text) {
  std::string rest(text);
  std::erase(rest, ' ');
  const size_t arrow = rest.find("->");
  const std::string operands = rest.substr(0, arrow);
  const size_t comma = operands.find(',');
  if (comma == std::string::npos || operands.find(',', comma + 1) != std::string::npos) {
    throw ValueError(fmt::format("\"{}\" must name two tensors, as in \"bij,bjk->bik\"", text));
  }
  Equation equation{operands.substr(0, comma), operands.substr(comma + 1), {}};
  check_term(equation.a, text);
  check_term(equation.b, text);
  if (arrow == std::string::npos) {
    equation.out = implicit_output(equation.a, equation.b);
    return equation;
  }
  equation.out = rest.substr(arrow + 2);
  check_term(equation.out, text);
  for (const char label : equation.out) {
    if (!contains(equation.a, label) && !contains(equation.b, label)) {
      throw ValueError(fmt::format("\"{}\" has label '{}' after the arrow, but in neither tensor", text, label));
    }
  }
  return equation;
}

void check_rank(const char* name, const Tensor& x, const std::string& labels) {
  if (x.rank() != static_cast<int>(labels.size())) {
    throw ShapeError(
        fmt::format("\"{}\" names {} dims, but {} has shape {}", labels, labels.size(), name, to_string(x.shape())));
  }
}

/// A tensor whose dims have labels.
struct Labelled {
  Tensor x;
  std::string labels;

  int64_t size(char label) const { return x.size(static_cast<int64_t>(labels.find(label))); }

  Shape sizes(const std::string& of) const {
    Shape result;
    for (const char label : of) result.push_back(size(label));
    return result;
  }

  /// The dims in the order of `to`.
  Tensor permuted(const std::string& to) const {
    Shape dims;
    for (const char label : to) dims.push_back(static_cast<int64_t>(labels.find(label)));
    return x.permute(dims);
  }
};

/// Without the labels that are neither in the other tensor nor in the result: these are summed at once.
Labelled without_own_labels(const Tensor& x, const std::string& labels, const std::string& other,
                            const std::string& out) {
  Shape dims;
  std::string kept;
  for (size_t d = 0; d < labels.size(); ++d) {
    if (contains(other, labels[d]) || contains(out, labels[d]))
      kept += labels[d];
    else
      dims.push_back(static_cast<int64_t>(d));
  }
  return {dims.rank() == 0 ? x : sum(x, dims), kept};
}

}  // namespace

Tensor einsum(std::string_view equation, const Tensor& a, const Tensor& b, Where where) {
  const Call call("einsum", where);
  const Equation terms = parse(equation);
  check_rank("a", a, terms.a);
  check_rank("b", b, terms.b);
  const Labelled left = without_own_labels(a, terms.a, terms.b, terms.out);
  const Labelled right = without_own_labels(b, terms.b, terms.a, terms.out);

  std::string batch, rows, columns, inner;
  for (const char label : terms.out) {
    const bool in_a = contains(terms.a, label), in_b = contains(terms.b, label);
    (in_a && in_b ? batch : in_a ? rows : columns) += label;
  }
  for (const char label : left.labels) {
    if (!contains(terms.b, label)) continue;
    if (left.size(label) != right.size(label)) {
      throw ShapeError(fmt::format("label '{}' is {} in a{} and {} in b{}", label, left.size(label),
                                   to_string(a.shape()), right.size(label), to_string(b.shape())));
    }
    if (!contains(terms.out, label)) inner += label;
  }

  const int64_t batch_size = left.sizes(batch).numel(), inner_size = left.sizes(inner).numel();
  const int64_t row_count = left.sizes(rows).numel(), column_count = right.sizes(columns).numel();
  const Tensor product =
      matmul(left.permuted(batch + rows + inner).reshape({batch_size, row_count, inner_size}),
             right.permuted(batch + inner + columns).reshape({batch_size, inner_size, column_count}));
  Shape shape = left.sizes(batch + rows);
  for (const int64_t size : right.sizes(columns)) shape.push_back(size);
  return Labelled{product.reshape(shape), batch + rows + columns}.permuted(terms.out);
}

}  // namespace linnet
