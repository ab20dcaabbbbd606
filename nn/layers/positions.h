#pragma once

#include <linnet/nn/module.h>

namespace linnet::nn {

/// How a model knows the order of its tokens.
enum class Positions : uint8_t {
  learned,     ///< a parameter for each position, up to the length it was built for
  sinusoidal,  ///< sinusoidal_positions: any length
  rotary,      ///< rotate, inside the attention: any length
  none,        ///< left to causality
};

/// Adds to each token a vector that tells its position. `learned` has the parameter `weight` [length, width],
/// which starts as N(0, spread), by default like an embedding; `rotary` and `none` add nothing.
class PositionEmbedding : public Module {
 public:
  /// Throws ValueError for a length below 1 of learned ones.
  PositionEmbedding(Module& parent, std::string name, Positions kind, int64_t length, int64_t width,
                    double spread = 1);

  /// Tokens x [B, N, width] at positions start … start + N − 1; to those of bfloat16 the vectors are added in
  /// float32. Throws ValueError past the end of learned ones.
  Tensor operator()(const Tensor& x, int64_t start = 0, Where where = {}) const;

  std::vector<Setting> settings() const override;

 private:
  Positions kind_;
  int64_t length_;
  Tensor weight_;
};

/// Vectors of positions start … start + count − 1, [count, width]: dim 2i is sin(p/10000^(2i/width)) and dim
/// 2i + 1 the cosine (Vaswani et al. 2017, section 3.5). Throws ValueError when the width is odd.
Tensor sinusoidal_positions(int64_t count, int64_t width, int64_t start = 0, DType dtype = DType::float32,
                            Device device = Device::cpu, Where where = {});

/// Rotates queries or keys [..., N, D] by their positions start … start + N − 1, so that their product
/// depends on the distance alone (Su et al. 2021, eq. 34): dims (i, i + D/2) turn by p/10000^(2i/D). The
/// pairing is that of GPT-NeoX and LLaMA. bfloat16 is rotated in float32. Throws ShapeError when D is odd.
Tensor rotate(const Tensor& x, int64_t start = 0, Where where = {});

}  // namespace linnet::nn
