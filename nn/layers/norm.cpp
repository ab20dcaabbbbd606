#include <linnet/nn/layers/norm.h>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/layers/batch_norm.h>
#include <linnet/ops/layers/normalisation.h>

namespace linnet::nn {
namespace {

/// Throws: ShapeError unless x fits `layout`. The op cannot check the channels of a layer without parameters.
void check_channels(const Tensor& x, bool rank_fits, int64_t channels, const std::string& layout) {
  if (rank_fits && x.size(1) == channels) return;
  const bool last = rank_fits && x.rank() > 2 && x.size(-1) == channels;
  throw ShapeError(fmt::format("x{} must be {}{}", to_string(x.shape()), layout,
                               !last           ? ""
                               : x.rank() == 3 ? "; channels come second: did you mean transpose(x, 1, 2)?"
                                               : "; channels come second: did you mean permute(x, {0, 3, 1, 2})?"));
}

}  // namespace

LayerNorm::LayerNorm(Module& parent, std::string name, int64_t width, LayerNormConfig config)
    : Module(parent, std::move(name), fmt::format("LayerNorm {}", width)), width_(width), eps_(config.eps) {
  if (width < 1) throw ValueError(fmt::format("{}: the width must be at least 1", label()));
  if (!config.affine) return;
  weight_ = parameter("weight", ones({width}, dtype(), device()));
  if (config.bias) bias_ = parameter("bias", zeros({width}, dtype(), device()));
}

Tensor LayerNorm::operator()(const Tensor& x, Where where) const {
  const Call call(label(), where);
  if (x.rank() == 0 || x.size(-1) != width_) {  // the op cannot check this for a layer without parameters
    throw ShapeError(fmt::format("x{} should end in {}", to_string(x.shape()), width_));
  }
  return layer_norm(x, weight_, bias_, eps_);
}

RMSNorm::RMSNorm(Module& parent, std::string name, int64_t width, double eps)
    : Module(parent, std::move(name), fmt::format("RMSNorm {}", width)), eps_(eps) {
  if (width < 1) throw ValueError(fmt::format("{}: the width must be at least 1", label()));
  weight_ = parameter("weight", ones({width}, dtype(), device()));
}

Tensor RMSNorm::operator()(const Tensor& x, Where where) const {
  const Call call(label(), where);
  return rms_norm(x, weight_, eps_);
}

BatchNorm::BatchNorm(Module& parent, std::string name, bool of_images, int64_t num_features,
                     const BatchNormConfig& config)
    : Module(parent, std::move(name), fmt::format("BatchNorm{}d {}", of_images ? 2 : 1, num_features)),
      of_images_(of_images),
      num_features_(num_features),
      config_(config) {
  if (num_features < 1) throw ValueError(fmt::format("{}: num_features must be at least 1", label()));
  const Shape shape{num_features};
  if (config.affine) weight_ = parameter("weight", ones(shape, dtype(), device()));
  if (config.affine && config.bias) bias_ = parameter("bias", zeros(shape, dtype(), device()));
  if (!config.track_running_stats) return;
  running_mean_ = buffer("running_mean", zeros(shape, dtype(), device()));
  running_var_ = buffer("running_var", ones(shape, dtype(), device()));
  num_batches_tracked_ = buffer("num_batches_tracked", zeros({}, DType::int64, device()));
}

Tensor BatchNorm::operator()(const Tensor& x, Where where) const {
  const Call call(label(), where);
  check_channels(x, of_images_ ? x.rank() == 4 : x.rank() == 2 || x.rank() == 3, num_features_,
                 of_images_ ? fmt::format("[N, {}, H, W]", num_features_)
                            : fmt::format("[N, {0}] or [N, {0}, L]", num_features_));
  const bool tracks = config_.track_running_stats, edits = tracks && training();
  const double momentum =
      config_.momentum || !edits ? config_.momentum.value_or(0) : 1 / (num_batches_tracked_.item() + 1);
  const Tensor y =
      batch_norm(x, running_mean_, running_var_, weight_, bias_, edits || !tracks, momentum, config_.eps);
  if (Tensor count = num_batches_tracked_; edits) count += 1;
  return y;
}

std::vector<Setting> BatchNorm::settings() const {
  return {{"eps", config_.eps},
          {"momentum", config_.momentum ? fmt::format("{}", *config_.momentum) : "none", /*may_differ=*/true}};
}

GroupNorm::GroupNorm(Module& parent, std::string name, int64_t num_groups, int64_t num_channels,
                     const GroupNormConfig& config)
    : Module(parent, std::move(name), fmt::format("GroupNorm {} of {}", num_groups, num_channels)),
      num_groups_(num_groups),
      num_channels_(num_channels),
      eps_(config.eps) {
  if (num_groups < 1 || num_channels < 1 || num_channels % num_groups != 0) {
    throw ValueError(fmt::format("{}: num_channels must be a multiple of num_groups, and both at least 1", label()));
  }
  if (config.affine) weight_ = parameter("weight", ones({num_channels}, dtype(), device()));
  if (config.affine && config.bias) bias_ = parameter("bias", zeros({num_channels}, dtype(), device()));
}

Tensor GroupNorm::operator()(const Tensor& x, Where where) const {
  const Call call(label(), where);
  check_channels(x, x.rank() >= 2, num_channels_, fmt::format("[N, {}, …]", num_channels_));
  return group_norm(x, num_groups_, weight_, bias_, eps_);
}

std::vector<Setting> LayerNorm::settings() const { return {{"eps", eps_}}; }
std::vector<Setting> RMSNorm::settings() const { return {{"eps", eps_}}; }
std::vector<Setting> GroupNorm::settings() const { return {{"num_groups", num_groups_}, {"eps", eps_}}; }

}  // namespace linnet::nn
