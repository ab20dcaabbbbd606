#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/matmul/matmul.h>

/// einsum as batched products of two operands at a time. A label of both operands is a batch dim if the result
/// or another operand still needs it, and an inner dim of the product otherwise.

namespace linnet {
namespace {

/// The label of one dim: a letter, or for a dim of an ellipsis −1, −2, … counted from the last one, as they
/// broadcast.
using Label = int;
using Labels = std::vector<Label>;

bool contains(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

std::string to_string(const Labels& labels) {
  std::string text;
  for (const Label label : labels) text += label > 0 ? std::string(1, static_cast<char>(label)) : "...";
  return text;
}

// ---- The equation ----

/// One term of an equation, such as `b...ij`.
struct Term {
  Labels before, after;  ///< the labels before and after the ellipsis
  bool has_ellipsis = false;

  int64_t letters() const { return static_cast<int64_t>(before.size() + after.size()); }

  /// The term's labels, where the ellipsis stands for this many dims.
  Labels with(int64_t ellipsis_dims) const {
    Labels labels = before;
    for (int64_t i = has_ellipsis ? ellipsis_dims : 0; i > 0; --i) labels.push_back(static_cast<Label>(-i));
    labels.insert(labels.end(), after.begin(), after.end());
    return labels;
  }
};

struct Equation {
  std::vector<Term> operands;
  Term result;
  bool has_arrow = false;
};

Term parse_term(std::string_view term, std::string_view equation) {
  Term result;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term.substr(i, 3) == "..." && !result.has_ellipsis) {
      result.has_ellipsis = true;
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
      (result.has_ellipsis ? result.after : result.before).push_back(term[i]);
    } else {
      size_t end = i + 1;
      while (end < term.size() && (static_cast<unsigned char>(term[end]) & 0xc0) == 0x80)
        ++end;  // one UTF-8 character
      throw ValueError(fmt::format(
          "\"{}\" has '{}' where a label should be; labels are letters, and one \"...\" in a term stands for "
          "any dims, as in \"...ij,...jk->...ik\"",
          equation, term.substr(i, end - i)));
    }
  }
  return result;
}

Equation parse(std::string_view text) {
  std::string rest(text);
  std::erase(rest, ' ');
  Equation equation;
  if (const size_t arrow = rest.find("->"); arrow != std::string::npos) {
    equation.has_arrow = true;
    equation.result = parse_term(std::string_view(rest).substr(arrow + 2), text);
    rest.resize(arrow);
  }
  for (size_t begin = 0; begin <= rest.size();) {
    const size_t end = std::min(rest.find(',', begin), rest.size());
    equation.operands.push_back(parse_term(std::string_view(rest).substr(begin, end - begin), text));
    begin = end + 1;
  }
  return equation;
}

// ---- Operands ----

/// A tensor whose dims have labels. No label occurs twice.
struct Labelled {
  Tensor x;
  Labels labels;

  int64_t place(Label label) const { return std::find(labels.begin(), labels.end(), label) - labels.begin(); }
  int64_t size(Label label) const { return x.size(place(label)); }

  Shape sizes(const Labels& of) const {
    Shape result;
    for (const Label label : of) result.push_back(size(label));
    return result;
  }

  /// The tensor with its dims in the order of `to`.
  Tensor permuted(const Labels& to) const {
    Shape dims;
    for (const Label label : to) dims.push_back(place(label));
    return x.permute(dims);
  }

  /// The tensor summed over the labels that are not in `needed`.
  Labelled summed_to(const Labels& needed) const {
    Shape dims;
    Labels kept;
    for (size_t d = 0; d < labels.size(); ++d) {
      if (contains(needed, labels[d]))
        kept.push_back(labels[d]);
      else
        dims.push_back(static_cast<int64_t>(d));
    }
    return {dims.rank() == 0 ? x : sum(x, dims), kept};
  }
};

/// Operand `number` with a label for each dim. Of dims with the same label it takes the diagonal.
Labelled labelled(const Tensor& operand, size_t number, const Term& term, std::string_view equation) {
  const int64_t ellipsis_dims = operand.rank() - term.letters();
  if (ellipsis_dims < 0 || (ellipsis_dims > 0 && !term.has_ellipsis)) {
    throw ShapeError(fmt::format("\"{}\" names {}{} dims, but operand {} has shape {}", to_string(term.with(1)),
                                 term.has_ellipsis ? "at least " : "", term.letters(), number,
                                 to_string(operand.shape())));
  }
  Labelled result{operand, term.with(ellipsis_dims)};
  Labels& labels = result.labels;
  for (auto first = labels.begin(); first != labels.end();) {
    const Label label = *first;
    const auto second = std::find(first + 1, labels.end(), label);
    if (second == labels.end()) {
      ++first;
      continue;
    }
    const int64_t dim1 = first - labels.begin(), dim2 = second - labels.begin();
    if (result.x.size(dim1) != result.x.size(dim2)) {
      throw ShapeError(fmt::format("label '{}' is {} and {} in one term of \"{}\", for operand {} of shape {}",
                                   to_string({label}), result.x.size(dim1), result.x.size(dim2), equation, number,
                                   to_string(operand.shape())));
    }
    result.x = result.x.diagonal(0, dim1, dim2);
    labels.erase(second);
    labels.erase(first);
    labels.push_back(label);  // `diagonal` makes the last dim
    first = labels.begin() + dim1;
  }
  return result;
}

/// The size of each label. Every operand with the label has that size, or size 1, which broadcasts.
std::map<Label, int64_t> sizes_of(const std::vector<Labelled>& operands, const std::vector<Tensor>& given) {
  std::map<Label, int64_t> sizes;
  std::map<Label, size_t> first;  // the first operand with this size
  for (size_t i = 0; i < operands.size(); ++i) {
    for (const Label label : operands[i].labels) {
      const int64_t size = operands[i].size(label);
      const auto [known, is_new] = sizes.try_emplace(label, size);
      if (!is_new && known->second != size && known->second != 1 && size != 1) {
        throw ShapeError(fmt::format(
            "{} is {} in operand {} of shape {} and {} in operand {} of shape {}",
            label > 0 ? fmt::format("label '{}'", to_string({label})) : fmt::format("dim {} of the ellipsis", label),
            known->second, first[label], to_string(given[first[label]].shape()), size, i,
            to_string(given[i].shape())));
      }
      if (is_new || known->second == 1) {
        known->second = size;
        first[label] = i;
      }
    }
  }
  return sizes;
}

/// The tensor without the dims of size 1 that broadcast.
Labelled without_broadcast(Labelled operand, const std::map<Label, int64_t>& sizes) {
  for (auto d = static_cast<int64_t>(operand.labels.size()) - 1; d >= 0; --d) {
    const Label label = operand.labels[static_cast<size_t>(d)];
    if (operand.x.size(d) == 1 && sizes.at(label) != 1) {
      operand.x = operand.x.squeeze(d);
      operand.labels.erase(operand.labels.begin() + d);
    }
  }
  return operand;
}

// ---- The result ----

/// The result's labels without an arrow: the dims of the ellipsis, then the letters that occur once, in ASCII order.
Labels implicit_result(const Equation& equation, int64_t ellipsis_dims) {
  Labels letters;
  for (const Term& term : equation.operands) {
    for (const Label label : term.with(0)) letters.push_back(label);
  }
  Labels once;
  for (const Label label : letters) {
    if (std::count(letters.begin(), letters.end(), label) == 1) once.push_back(label);
  }
  std::sort(once.begin(), once.end());
  return Term{{}, once, true}.with(ellipsis_dims);
}

void check_result(const Labels& result, const std::map<Label, int64_t>& sizes, std::string_view equation) {
  for (const Label label : result) {
    if (!sizes.contains(label)) {
      throw ValueError(
          fmt::format("\"{}\" has label '{}' after the arrow, but in no operand", equation, to_string({label})));
    }
    if (std::count(result.begin(), result.end(), label) > 1) {
      throw ValueError(fmt::format("\"{}\" has label '{}' twice after the arrow", equation, to_string({label})));
    }
  }
}

/// a·b for matrices a [..., m, k] and b [..., k, n]. With k = 1, or with m = n = 1, a matrix product would be a call
/// for each number or two.
Tensor product_of(const Tensor& a, const Tensor& b) {
  if (a.size(-1) != 1 && (a.size(-2) != 1 || b.size(-1) != 1)) return matmul(a, b);
  detail::check_floating(a.dtype());
  if (a.size(-1) == 1) return mul(a, b);
  return sum(mul(detail::in_computed(a), detail::in_computed(transpose(b))), {-1}, true).to(a.dtype());
}

/// The product of two operands, with the labels `out` in this order.
Labelled contract(const Labelled& a, const Labelled& b, const Labels& out) {
  Labels needed_of_a = out, needed_of_b = out;
  needed_of_a.insert(needed_of_a.end(), b.labels.begin(), b.labels.end());
  needed_of_b.insert(needed_of_b.end(), a.labels.begin(), a.labels.end());
  const Labelled left = a.summed_to(needed_of_a), right = b.summed_to(needed_of_b);

  Labels batch, rows, columns, inner;
  for (const Label label : out) {
    const bool in_a = contains(a.labels, label), in_b = contains(b.labels, label);
    (in_a && in_b ? batch : in_a ? rows : columns).push_back(label);
  }
  for (const Label label : left.labels) {
    if (contains(b.labels, label) && !contains(out, label)) inner.push_back(label);
  }
  const auto joined = [](Labels first, const Labels& second, const Labels& third = {}) {
    first.insert(first.end(), second.begin(), second.end());
    first.insert(first.end(), third.begin(), third.end());
    return first;
  };
  const int64_t batch_size = left.sizes(batch).numel(), inner_size = left.sizes(inner).numel();
  const int64_t row_count = left.sizes(rows).numel(), column_count = right.sizes(columns).numel();
  const Tensor product =
      product_of(left.permuted(joined(batch, rows, inner)).reshape({batch_size, row_count, inner_size}),
                 right.permuted(joined(batch, inner, columns)).reshape({batch_size, inner_size, column_count}));
  Shape shape = left.sizes(joined(batch, rows));
  for (const int64_t size : right.sizes(columns)) shape.push_back(size);
  return {Labelled{product.reshape(shape), joined(batch, rows, columns)}.permuted(out), out};
}

/// The labels of two operands that the result or another operand needs.
Labels needed(const std::vector<Labelled>& operands, size_t a, size_t b, const Labels& result) {
  Labels labels;
  for (const size_t i : {a, b}) {
    for (const Label label : operands[i].labels) {
      bool is_needed = contains(result, label);
      for (size_t other = 0; other < operands.size(); ++other) {
        if (other != a && other != b) is_needed = is_needed || contains(operands[other].labels, label);
      }
      if (is_needed && !contains(labels, label)) labels.push_back(label);
    }
  }
  return labels;
}

/// The number of multiplications in the product of two operands.
double cost(const Labelled& a, const Labelled& b) {
  double product = 1;
  for (const int64_t size : a.x.shape()) product *= static_cast<double>(size);
  for (const Label label : b.labels) {
    if (!contains(a.labels, label)) product *= static_cast<double>(b.size(label));
  }
  return product;
}

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands, Where where) {
  const Call call("einsum", where);
  const Equation terms = parse(equation);
  if (terms.operands.size() != operands.size()) {
    throw ValueError(
        fmt::format("\"{}\" has {} before the arrow, but {} given", equation,
                    terms.operands.size() == 1 ? "one term" : fmt::format("{} terms", terms.operands.size()),
                    operands.size() == 1 ? "one tensor is" : fmt::format("{} tensors are", operands.size())));
  }
  for (size_t i = 1; i < operands.size(); ++i) {
    if (operands[i].dtype() == operands[0].dtype()) continue;
    const DType wanted = is_floating(operands[0].dtype()) ? operands[0].dtype() : operands[i].dtype();
    throw DTypeError(fmt::format("operand 0 is {}{}, but operand {} is {}{}; convert one with to(DType::{})",
                                 name_of(operands[0].dtype()), linnet::to_string(operands[0].shape()), i,
                                 name_of(operands[i].dtype()), linnet::to_string(operands[i].shape()),
                                 name_of(is_floating(wanted) ? wanted : DType::float32)));
  }
  std::vector<Labelled> left;
  int64_t ellipsis_dims = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    left.push_back(labelled(operands[i], i, terms.operands[i], equation));
    ellipsis_dims = std::max(ellipsis_dims, operands[i].rank() - terms.operands[i].letters());
  }
  const std::map<Label, int64_t> sizes = sizes_of(left, operands);
  for (Labelled& operand : left) operand = without_broadcast(std::move(operand), sizes);
  const Labels result = terms.has_arrow ? terms.result.with(ellipsis_dims) : implicit_result(terms, ellipsis_dims);
  check_result(result, sizes, equation);

  if (left.size() == 1) return left[0].summed_to(result).permuted(result);
  while (left.size() > 2) {
    // Takes the cheapest pair, the first of equally cheap ones.
    size_t first = 0, second = 1;
    for (size_t a = 0; a < left.size(); ++a) {
      for (size_t b = a + 1; b < left.size(); ++b) {
        if (cost(left[a], left[b]) < cost(left[first], left[second])) first = a, second = b;
      }
    }
    left[first] = contract(left[first], left[second], needed(left, first, second, result));
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(second));
  }
  return contract(left[0], left[1], result).x;
}

Tensor einsum(std::string_view equation, const Tensor& x, Where where) {
  return einsum(equation, std::vector<Tensor>{x}, where);
}

Tensor einsum(std::string_view equation, const Tensor& a, const Tensor& b, Where where) {
  return einsum(equation, std::vector<Tensor>{a, b}, where);
}

}  // namespace linnet
