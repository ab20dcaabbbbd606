#pragma once

#include <linnet/core/device/backend.h>
#include <linnet/core/tensor.h>
#include <linnet/ops/fastmax/fastmax.h>

/// Code that Fastmax and other attentions with polynomial weights share, apart from the kernels.

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// The form to use when the caller asks for `asked`. It is never `automatic`. For tensors without elements it is
/// `quadratic`.
///
/// Shapes: q [B, H, N, D], k [B, H, M, D].
FastmaxForm fastmax_form_for(FastmaxForm asked, const Tensor& q, const Tensor& k, const FastmaxParams& params);

/// Attention with weights f(t) = a0 + a1·t + a2·t² of t = q·k, in a form that is not `automatic`.
///
/// Shapes: q [B, H, N, D], k and v [B, H, M, D]; `padding_mask` undefined or [B, M].
/// Dtypes: one floating dtype, but not bfloat16 in the reference form; `padding_mask` is bool.
/// Gradient: once (fused); any number of times with FastmaxForm::reference.
/// Throws: ShapeError, DTypeError, DeviceError.
Tensor fastmax_in(FastmaxForm form, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                  const FastmaxParams& params);

/// The number of values of a random byte that keep a feature, for a dropout rate below 1.
int bytes_kept(double dropout);

}  // namespace detail
}  // namespace linnet
