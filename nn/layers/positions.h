#pragma once

#include <linnet/nn/module.h>

namespace linnet::nn {

/// How a model knows the order of its tokens.
enum class Positions : uint8_t {
  learned,     ///< a learned vector for each position, up to the length that the layer was built for
  sinusoidal,  ///< sinusoidal_positions: any length
  rotary,      ///< rotate, inside the attention: any length
  none,        ///< no positions; a causal model can still tell the order
};

/// Adds to each token a vector for its position. `learned` has the parameter `weight` [length, width], which starts
/// as N(0, spread²), by default like an embedding. `rotary` and `none` add nothing.
class PositionEmbedding : public Module {
 public:
  /// Throws: ValueError for learned positions of a length below 1.
  PositionEmbedding(Module& parent, std::string name, Positions kind, int64_t length, int64_t width,
                    double spread = 1);

  /// Tokens x at positions start … start + N − 1, with the vectors added.
  ///
  /// Shapes: x [B, N, width] → [B, N, width].
  /// Dtypes: floating; bfloat16 tokens are added in float32.
  /// Throws: DTypeError for another dtype, if there is a vector to add; ValueError past the end of learned positions,
  /// and for sinusoidal ones of an odd width.
  Tensor operator()(const Tensor& x, int64_t start = 0, Where where = {}) const;

  std::vector<Setting> settings() const override;

 private:
  Positions kind_;
  int64_t length_;
  Tensor weight_;
};

/// Vectors for positions p = start … start + count − 1: element 2i is sin(p/10000^(2i/width)), element 2i + 1 the
/// cosine.
///
/// Shapes: [count, width].
/// Throws: ValueError when the width is odd; DTypeError for a dtype that is not floating.
/// Source: Vaswani et al. 2017, section 3.5.
Tensor sinusoidal_positions(int64_t count, int64_t width, int64_t start = 0, DType dtype = DType::float32,
                            Device device = Device::cpu, Where where = {});

/// Rotates queries or keys by their positions p = start … start + N − 1, so that positions enter the dot product of a
/// query and a key only by their distance. Elements (i, i + D/2) are rotated by p/10000^(2i/D), the pairing of
/// GPT-NeoX and LLaMA.
///
/// Shapes: x [..., N, D] → [..., N, D].
/// Dtypes: floating; bfloat16 is rotated in float32.
/// Throws: ShapeError when D is odd; DTypeError for other dtypes.
/// Source: Su et al. 2021, eq. 34.
Tensor rotate(const Tensor& x, int64_t start = 0, Where where = {});

}  // namespace linnet::nn
