#include "support/users/scores.h"

#include <algorithm>

#include "support/ranks.h"

namespace linnet::examples {
namespace {

constexpr ptrdiff_t kItemsAtOnce = 256, kUsersAtOnce = 64, kNumbersAtOnce = 1 << 15;

/// The vectors of the items that users need.
class EncodedItems {
 public:
  EncodedItems(TwoLevelModel& model, const Lists& items, const std::vector<UserAndCandidates>& users)
      : rows_(static_cast<size_t>(items.size()), -1) {
    std::vector<std::span<const int32_t>> texts;
    const auto need = [&](int32_t item) {
      if (item < 0 || rows_[static_cast<size_t>(item)] >= 0) return;
      rows_[static_cast<size_t>(item)] = static_cast<int32_t>(texts.size());
      texts.push_back(items[item]);
    };
    for (const UserAndCandidates& user : users) {
      std::ranges::for_each(user.history, need);
      std::ranges::for_each(user.candidates, need);
    }
    std::vector<Tensor> parts;
    for (auto begin = texts.begin(); begin != texts.end();) {
      stop_if_interrupted();
      const auto end = begin + std::min(kItemsAtOnce, texts.end() - begin);
      const PaddedLists words = padded({begin, end});
      parts.push_back(model.items(words.numbers.to(model.device()), words.mask.to(model.device())));
      begin = end;
    }
    if (!parts.empty()) vectors_ = concat(parts, 0);
  }

  const Tensor& vectors() const { return vectors_; }
  std::vector<int32_t> rows_of(std::span<const int32_t> items) const {
    std::vector<int32_t> rows;
    for (const int32_t item : items) rows.push_back(item < 0 ? 0 : rows_[static_cast<size_t>(item)]);
    return rows;
  }

 private:
  std::vector<int32_t> rows_;  // of each item in vectors_; -1 for one that no user needs
  Tensor vectors_;
};

using Users = std::vector<UserAndCandidates>::const_iterator;

/// The end of the users, from `begin` on, whose candidates are scored together: rows of the longest list each.
Users users_at_once(Users begin, Users end) {
  ptrdiff_t longest = 0;
  for (auto user = begin; user != end; ++user) {
    longest = std::max(longest, std::max(std::ssize(user->history), std::ssize(user->candidates)));
    const ptrdiff_t count = user - begin + 1;
    if (count > 1 && (count > kUsersAtOnce || count * longest > kNumbersAtOnce)) return user;
  }
  return end;
}

}  // namespace

std::vector<std::vector<double>> scores_of(TwoLevelModel& model, const Lists& items,
                                           const std::vector<UserAndCandidates>& users) {
  const NoGrad no_grad;
  const bool was_training = model.training();
  model.eval();
  const EncodedItems encoded(model, items, users);
  std::vector<std::vector<double>> all;
  if (!encoded.vectors().defined()) {  // nothing is known of any candidate
    for (const UserAndCandidates& user : users) all.emplace_back(user.candidates.size());
  }
  for (auto begin = users.begin(); begin != users.end() && encoded.vectors().defined();) {
    stop_if_interrupted();
    const auto end = users_at_once(begin, users.end());
    std::vector<std::vector<int32_t>> rows;
    for (auto user = begin; user != end; ++user) rows.push_back(encoded.rows_of(user->history));
    for (auto user = begin; user != end; ++user) rows.push_back(encoded.rows_of(user->candidates));
    const auto middle = rows.begin() + (end - begin);
    const PaddedLists histories = padded({rows.begin(), middle}), candidates = padded({middle, rows.end()});
    const Tensor vectors =
        model.users(encoded.vectors(), histories.numbers.to(model.device()), histories.mask.to(model.device()));
    const Tensor scores = model.scores(vectors, encoded.vectors(), candidates.numbers.to(model.device()));
    const std::vector<double> flat = scores.to(Device::cpu).to(DType::float64).to_vector<double>();
    const auto width = static_cast<ptrdiff_t>(candidates.numbers.size(1));
    for (auto user = begin; user != end; ++user) {
      const auto first = flat.begin() + (user - begin) * width;
      all.emplace_back(first, first + std::ssize(user->candidates));
    }
    begin = end;
  }
  model.train(was_training);
  return all;
}

}  // namespace linnet::examples
