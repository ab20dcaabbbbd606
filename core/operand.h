#pragma once

#include <type_traits>

#include <linnet/core/dtype.h>
#include <linnet/core/where.h>

/// The operands of operators, as in `x + y` and `x[0] = 1`.

namespace linnet {

class Tensor;

/// A tensor operand of an operator, with the line of the expression. A function takes the line as its last argument.
/// An operator has no such argument, so the conversion to an Operand takes the line.
struct Operand {
  const Tensor& tensor;  ///< the operand
  Where where;           ///< the line of the expression

  Operand(const Tensor& tensor_, Where where_ = {})  // NOLINT(google-explicit-constructor): converting is its task
      : tensor(tensor_), where(where_) {}
};
/// A number as the operand of an operator, with the line of the expression.
struct NumberOperand {
  Scalar value;  ///< the operand
  Where where;   ///< the line of the expression

  NumberOperand(Scalar value_, Where where_ = {})  // NOLINT(google-explicit-constructor)
      : value(value_), where(where_) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  NumberOperand(T value_, Where where_ = {})  // NOLINT(google-explicit-constructor): converting is its task
      : value(value_), where(where_) {}
};

}  // namespace linnet
