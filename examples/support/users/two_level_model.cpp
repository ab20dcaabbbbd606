#include "support/users/two_level_model.h"

#include <utility>

#include "support/settings/program.h"

namespace linnet::examples {
namespace {

constexpr double kEmbeddingStd = 0.02;
constexpr int64_t kNrmsHidden = 200;  // of the pooling's scores (Wu et al. 2019, section 3.1)

/// Rows of items [U, C] by their numbers [B, N]: [B, N, C].
Tensor rows_of(const Tensor& items, const Tensor& numbers) {
  const Tensor rows = index_select(items, 0, numbers.flatten());
  return rows.reshape({numbers.size(0), numbers.size(1), items.size(1)});
}

}  // namespace

PooledEncoder::PooledEncoder(nn::Module& parent, std::string name, const Settings& s, int64_t max_tokens)
    : Module(parent, std::move(name)),
      layers_(s.layers),
      dropout_(*this, "dropout", s.dropout),
      blocks_(*this, "blocks") {
  const UserEncoder encoder = user_encoder_of(s);
  nn::BlockConfig block = block_config(s);
  block.pre_norm = false;
  block.attention.max_tokens = max_tokens;
  block.attention.rotary = positions_of(s) == nn::Positions::rotary;
  if (encoder == UserEncoder::mean) return;
  if (encoder == UserEncoder::nrms) {
    block.attention.rotary = false;
    attention_ = nn::make_attention(*this, "attention", block.attention);
  } else {
    pos_.emplace(*this, "pos", positions_of(s), max_tokens, s.width, kEmbeddingStd);
    norm_.emplace(*this, "norm", s.width, nn::LayerNormConfig{.bias = s.bias});
    if (const Tensor shared = nn::make_shared_parameter(*this, block.attention); shared.defined()) {
      block.attention.shared = parameter("shared_attention", shared);
    }
    for (int64_t i = 0; i < (shares(s, "layers") ? 1 : layers_); ++i) blocks_.add(block);
  }
  pool_.emplace(*this, "pool", s.width, false, encoder == UserEncoder::nrms ? kNrmsHidden : 0);
}

Tensor PooledEncoder::operator()(const Tensor& x, const Tensor& mask) const {
  if (!pool_) {
    const Tensor weights = mask.to(x.dtype()).unsqueeze(-1);
    return sum(x * weights, {1}) / maximum(sum(weights, {1}), 1);
  }
  if (attention_) return (*pool_)(dropout_((*attention_)(dropout_(x.to(activation_dtype())), mask)), mask);
  Tensor h = dropout_((*norm_)((*pos_)(x)).to(activation_dtype()));
  for (int64_t i = 0; i < layers_; ++i) h = blocks_[blocks_.size() == 1 ? 0 : i](h, mask);
  return (*pool_)(h.to(dtype()), mask);
}

TwoLevelModel::TwoLevelModel(Generator& rng, const Settings& s, int64_t vocabulary, bool has_head)
    : Module(rng, model_dtype(s), device_of(s), "TwoLevelModel"),
      words_(*this, "words", vocabulary, s.width),
      item_encoder_(*this, "items", s, s.of_users.title_words),
      user_encoder_(*this, "users", s, s.of_users.history) {
  Tensor embeddings = words_.weight();
  nn::init::normal_(embeddings, generator(), 0, kEmbeddingStd);
  if (!has_head) return;
  fc1_.emplace(*this, "fc1", 3 * s.width, s.width);
  fc2_.emplace(*this, "fc2", s.width, 1);
}

Tensor TwoLevelModel::operator()(const nn::Batch& batch) const {
  const Tensor all = items(batch.inputs, batch.others[0]);
  return scores(users(all, batch.others[1], batch.others[2]), all, batch.others[3]);
}

Tensor TwoLevelModel::items(const Tensor& words, const Tensor& mask) const {
  return item_encoder_(words_(words), mask);
}

Tensor TwoLevelModel::users(const Tensor& items, const Tensor& histories, const Tensor& mask) const {
  return user_encoder_(rows_of(items, histories), mask);
}

Tensor TwoLevelModel::scores(const Tensor& users, const Tensor& items, const Tensor& candidates) const {
  const Tensor rows = rows_of(items, candidates), user = users.unsqueeze(1);  // [B, K, C], [B, 1, C]
  if (!fc1_) return matmul(rows, user.transpose(1, 2)).squeeze(-1);
  const Tensor product = rows * user;
  return (*fc2_)(relu((*fc1_)(concat({user.expand(rows.shape()), rows, product}, -1)))).squeeze(-1);
}

}  // namespace linnet::examples
