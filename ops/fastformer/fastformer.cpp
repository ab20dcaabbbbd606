#include <linnet/ops/fastformer/fastformer.h>

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/detail/additive_attention.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/heads.h>

namespace linnet {
namespace {

std::string projection_name(size_t i) { return fmt::format("projection {} ", i + 1); }

void check_projections(const std::vector<Tensor>& projections, size_t stages) {
  if (projections.size() < 2) {
    throw ValueError(
        fmt::format("there {} {} projection{}; at least 2 are needed, usually 3: queries, keys and values",
                    projections.size() == 1 ? "is" : "are", projections.size(), projections.size() == 1 ? "" : "s"));
  }
  if (stages != projections.size() - 1) {
    throw ValueError(fmt::format("{} projections need {} stages, one between each two, not {}", projections.size(),
                                 projections.size() - 1, stages));
  }
  detail::check_heads(projections[0], projection_name(0).c_str());
  for (size_t i = 1; i < projections.size(); ++i) {
    detail::check_same_shape(projections[i], projection_name(i).c_str(), projections[0], projection_name(0).c_str());
  }
}

/// Checks the shape of a parameter of stage `i`.
void check_parameter(const Tensor& x, const char* name, size_t i, const Shape& wanted, const Tensor& projection) {
  if (!(x.shape() == wanted)) {
    throw ShapeError(fmt::format("{}{} of stage {} does not fit projection 1 {}: it must be {}", name,
                                 to_string(x.shape()), i + 1, to_string(projection.shape()), to_string(wanted)));
  }
}

void check_stage(const AdditiveStage& stage, size_t i, Interaction interaction, const Tensor& projection) {
  const int64_t heads = projection.shape()[1], width = projection.shape()[3];
  if (!stage.weight.defined()) throw ValueError(fmt::format("stage {} has no weight", i + 1));
  const Shape per_head{heads, width}, full{heads, heads * width};
  if (!(stage.weight.shape() == per_head) && !(stage.weight.shape() == full)) {
    throw ShapeError(fmt::format(
        "weight{} of stage {} does not fit projection 1 {}: it must be [heads, width], {}, or full, {}",
        to_string(stage.weight.shape()), i + 1, to_string(projection.shape()), to_string(per_head), to_string(full)));
  }
  if (stage.bias.defined()) check_parameter(stage.bias, "bias", i, {heads}, projection);
  if (interaction == Interaction::concat) {
    if (!stage.concat_weight.defined()) {
      throw ValueError(fmt::format("stage {} has no concat_weight; Interaction::concat needs one, {}", i + 1,
                                   to_string(Shape{heads, 2 * width, width})));
    }
    check_parameter(stage.concat_weight, "concat_weight", i, {heads, 2 * width, width}, projection);
  } else if (stage.concat_weight.defined()) {
    throw ValueError(fmt::format("stage {} has a concat_weight, which only Interaction::concat uses", i + 1));
  }
}

/// Whether the fused op computes the call. (A bias cancels, but the fused op would not record its gradient.)
bool is_fused(const std::vector<Tensor>& projections, const std::vector<AdditiveStage>& stages,
              const AdditiveAttentionOptions& options) {
  if (projections.size() != 3 || options.interaction == Interaction::concat) return false;
  return std::all_of(stages.begin(), stages.end(), [&](const AdditiveStage& stage) {
    return stage.weight.shape()[1] == projections[0].shape()[3] && !stage.bias.defined();
  });
}

void check(const std::vector<Tensor>& projections, const std::vector<AdditiveStage>& stages,
           const AdditiveAttentionOptions& options) {
  check_projections(projections, stages.size());
  for (size_t i = 0; i < stages.size(); ++i) check_stage(stages[i], i, options.interaction, projections[0]);
  detail::check_padding_mask(options.padding_mask, projections[0], projection_name(0).c_str());
}

}  // namespace

Tensor additive_attention(const std::vector<Tensor>& projections, const std::vector<AdditiveStage>& stages,
                          const AdditiveAttentionOptions& options, Where where) {
  Call call("additive_attention", where);
  check(projections, stages, options);
  detail::check_dropout(options.dropout, options.generator);
  if (is_fused(projections, stages, options)) {
    return detail::fused_additive_attention(projections[0], projections[1], projections[2], stages[0].weight,
                                            stages[1].weight, options);
  }
  if (detail::are_bfloat16(projections)) {
    return detail::attend_in_float32(projections,
                                     [&](const auto& x) { return additive_attention(x, stages, options); });
  }
  return detail::composed_additive_attention(projections, stages, options);
}

std::vector<Tensor> additive_attention_weights(const std::vector<Tensor>& projections,
                                               const std::vector<AdditiveStage>& stages,
                                               const AdditiveAttentionOptions& options, Where where) {
  Call call("additive_attention_weights", where);
  check(projections, stages, options);
  std::vector<Tensor> wide;
  wide.reserve(projections.size());
  for (const Tensor& projection : projections) wide.push_back(detail::in_computed(projection));
  return detail::composed_additive_weights(wide, stages, options);
}

}  // namespace linnet
