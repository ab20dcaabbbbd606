#include <linnet/nn/layers/positions.h>

#include <cmath>

#include <fmt/format.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/core/error.h>
#include <linnet/nn/init.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>

namespace linnet::nn {

namespace {

/// p/10000^(2i/width) for positions p (rows) and i < width/2 (columns). They are float64, because in float32 an angle
/// of 10^5 has only two decimals.
Tensor angles(int64_t count, int64_t start, int64_t width) {
  const Tensor positions = arange(start, start + count, 1, DType::float64).unsqueeze(1);
  const Tensor exponents = arange(0, width, 2, DType::float64) * (-std::log(10000.0) / static_cast<double>(width));
  return positions * exp(exponents);
}

const char* name_of(Positions kind) {
  switch (kind) {
    case Positions::learned: return "learned";
    case Positions::sinusoidal: return "sinusoidal";
    case Positions::rotary: return "rotary";
    case Positions::none: return "none";
  }
  return "?";
}

std::string kind_name(Positions kind, int64_t length) {
  switch (kind) {
    case Positions::learned: return fmt::format("learned positions, {}", length);
    case Positions::sinusoidal: return "sinusoidal positions";
    case Positions::rotary: return "rotary positions, in the attention";
    case Positions::none: break;
  }
  return "no positions";
}

}  // namespace

PositionEmbedding::PositionEmbedding(Module& parent, std::string name, Positions kind, int64_t length, int64_t width,
                                     double spread)
    : Module(parent, std::move(name), kind_name(kind, length)), kind_(kind), length_(length) {
  if (kind != Positions::learned) return;
  if (length < 1) throw ValueError(fmt::format("{}: the length must be at least 1", label()));
  weight_ = parameter("weight", Tensor::empty({length, width}, dtype(), device()));
  init::normal_(weight_, generator(), 0, spread);
}

Tensor PositionEmbedding::operator()(const Tensor& x, int64_t start, Where where) const {
  const Call call(label(), where);
  const int64_t tokens = x.size(-2);
  const DType dtype = computed_in(x.dtype());
  switch (kind_) {
    case Positions::learned:
      if (start < 0) throw ValueError(fmt::format("positions begin at 0, not at {}", start));
      if (start + tokens > length_) {
        throw ValueError(
            fmt::format("{} tokens, but learned positions end at {}; shorten the text, build the model for a longer "
                        "context, or use sinusoidal or rotary positions",
                        start + tokens, length_));
      }
      return (x.to(dtype) + weight_.narrow(0, start, tokens)).to(x.dtype());
    case Positions::sinusoidal:
      return (x.to(dtype) + sinusoidal_positions(tokens, x.size(-1), start, dtype, x.device())).to(x.dtype());
    case Positions::rotary:
    case Positions::none: return x;
  }
  return x;
}

Tensor sinusoidal_positions(int64_t count, int64_t width, int64_t start, DType dtype, Device device, Where where) {
  const Call call("sinusoidal_positions", where);
  detail::check_floating(dtype);
  if (width % 2 != 0) throw ValueError(fmt::format("the width is {}; it must be even", width));
  const Tensor angle = angles(count, start, width);
  const Tensor pairs = stack({sin(angle), cos(angle)}, 2);  // [count, width/2, 2]
  return Recording::constant(pairs.reshape({count, width}).to(computed_in(dtype)), device).to(dtype);
}

Tensor rotate(const Tensor& x, int64_t start, Where where) {
  const Call call("rotate", where);
  detail::check_floating(x.dtype());
  const int64_t width = x.size(-1), half = width / 2;
  if (width % 2 != 0) throw ShapeError(fmt::format("x{}: the last dim must be even", to_string(x.shape())));
  const DType dtype = computed_in(x.dtype());
  const Tensor angle = angles(x.size(-2), start, width);
  const Tensor cosine = Recording::constant(cos(angle).to(dtype), x.device());
  const Tensor sine = Recording::constant(sin(angle).to(dtype), x.device());
  const Tensor wide = x.to(dtype), a = wide.narrow(-1, 0, half), b = wide.narrow(-1, half, half);
  return concat({a * cosine - b * sine, b * cosine + a * sine}, -1).to(x.dtype());
}

std::vector<Setting> PositionEmbedding::settings() const { return {{"positions", name_of(kind_)}}; }

}  // namespace linnet::nn
