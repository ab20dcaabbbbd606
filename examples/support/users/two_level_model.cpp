#include "support/users/two_level_model.h"

#include "support/settings/program.h"

namespace linnet::examples {
namespace {

constexpr double kEmbeddingStd = 0.02;

/// Rows of items [U, C] by their numbers [B, N]: [B, N, C].
Tensor rows_of(const Tensor& items, const Tensor& numbers) {
  const Tensor rows = index_select(items, 0, numbers.flatten());
  return rows.reshape({numbers.size(0), numbers.size(1), items.size(1)});
}

}  // namespace

TwoLevelModel::TwoLevelModel(Generator& rng, const Settings& s, int64_t vocabulary, bool has_head,
                             int64_t embedding_width)
    : Module(rng, model_dtype(s), device_of(s), "TwoLevelModel"),
      words_(*this, "words", vocabulary, embedding_width > 0 ? embedding_width : s.width),
      item_encoder_(*this, "items", s, s.of_users.title_words),
      user_encoder_(*this, "users", s, s.of_users.history) {
  Tensor embeddings = words_.weight();
  nn::init::normal_(embeddings, generator(), 0, kEmbeddingStd);
  if (embeddings.size(1) != s.width) map_.emplace(*this, "map", embeddings.size(1), s.width);
  if (!has_head) return;
  fc1_.emplace(*this, "fc1", 3 * s.width, s.width);
  fc2_.emplace(*this, "fc2", s.width, 1);
}

Tensor TwoLevelModel::operator()(const nn::Batch& batch) const {
  const Tensor all = items(batch.inputs, batch.others[0]);
  return scores(users(all, batch.others[1], batch.others[2]), all, batch.others[3]);
}

Tensor TwoLevelModel::items(const Tensor& words, const Tensor& mask) const {
  const Tensor vectors = words_(words);
  return item_encoder_(map_ ? (*map_)(vectors) : vectors, mask);
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
