#pragma once

#include <limits>

#include <linnet/core/tensor.h>

namespace linnet::nn {

/// The rows of the last tokens, [B, H, T, D], for a step form: all of them, or at most `most`. They are part of one
/// tensor with capacity for more, which is replaced when it is full, so that a text of N tokens copies O(N) rows.
/// While the tape records, each token makes a new tensor instead, because the tape may have saved the old one.
class TokenRows {
 public:
  explicit TokenRows(int64_t most = std::numeric_limits<int64_t>::max()) : most_(most) {}

  /// Appends one token, [B, H, 1, D], and returns the rows so far.
  Tensor append(const Tensor& row);
  /// The rows so far; undefined before the first.
  Tensor rows() const;
  /// The tensor with the rows and with capacity for more; undefined before the first row.
  Tensor& room() { return room_; }

 private:
  void make_room(const Tensor& row);

  int64_t most_;
  Tensor room_;
  int64_t begin_ = 0, end_ = 0;  // of the rows in room_
};

}  // namespace linnet::nn
