#pragma once

#include <linnet/ops/layers/recurrent.h>

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// Lengths as kernels take them, on the device of x [T, B, in]; undefined where all steps are real.
///
/// Throws: as gru.
Tensor checked_lengths(const Tensor& lengths, const Tensor& x);

// gru and lstm without checks of shapes and of `options.lengths`, for lengths as checked_lengths returns them.

/// gru.
GRUResult gru_of_checked(const Tensor& x, const Tensor& h0, const Tensor& weight_ih, const Tensor& weight_hh,
                         const Tensor& bias_ih, const Tensor& bias_hh, const RecurrentOptions& options,
                         Where where = {});
/// lstm.
LSTMResult lstm_of_checked(const Tensor& x, const Tensor& h0, const Tensor& c0, const Tensor& weight_ih,
                           const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh,
                           const RecurrentOptions& options, Where where = {});

}  // namespace detail
}  // namespace linnet
