#pragma once

#include <concepts>

#include <linnet/nn/module.h>

namespace linnet::nn {

/// A table of `count` vectors of `width` numbers. The parameter `weight` [count, width] starts as N(0, 1).
class Embedding : public Module {
 public:
  /// Throws: ValueError for sizes below 1.
  Embedding(Module& parent, std::string name, int64_t count, int64_t width);
  template <NotAModule First, class... Rest>
  Embedding(First&& first, Rest&&...) : Module(refuse_outside_of_a_module(first)) {}
  template <std::integral PaddingIdx>
  Embedding(Module& parent, const std::string&, int64_t, int64_t, PaddingIdx) : Module(parent, "") {
    static_assert(detail::refused<PaddingIdx>,
                  "there is no padding_idx: write embedding(ids).masked_fill((ids == 0).unsqueeze(-1), 0)");
  }

  /// The vectors of the ids.
  ///
  /// Shapes: ids [...] → [..., width].
  /// Dtypes: ids are int64 or int32.
  /// Throws: IndexError for an id outside 0 … count − 1.
  Tensor operator()(const Tensor& ids, Where where = {}) const;

  const Tensor& weight() const { return weight_; }  ///< [count, width]

 private:
  Tensor weight_;
};

}  // namespace linnet::nn
