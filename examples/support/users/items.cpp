#include "support/users/items.h"

#include <algorithm>
#include <unordered_map>

namespace linnet::examples {

std::vector<int32_t> first_words(const nn::WordVocabulary& vocabulary, std::string_view text, int64_t most) {
  const std::vector<int64_t> ids = vocabulary.encode(text);
  if (ids.empty()) return {static_cast<int32_t>(nn::WordVocabulary::kUnknown)};
  std::vector<int32_t> first(static_cast<size_t>(std::min<int64_t>(most, std::ssize(ids))));
  std::copy_n(ids.begin(), first.size(), first.begin());
  return first;
}

nn::Batch user_batch(const Lists& items, const std::vector<UserAndCandidates>& users, const Tensor& targets) {
  std::unordered_map<int32_t, int32_t> rows;
  std::vector<std::span<const int32_t>> words;
  const auto row_of = [&](int32_t item) {
    const auto [found, is_new] = rows.emplace(item, static_cast<int32_t>(words.size()));
    if (is_new) words.push_back(items[item]);
    return found->second;
  };
  Lists histories, candidates;
  std::vector<int32_t> list;
  for (const UserAndCandidates& user : users) {
    list.clear();
    for (const int32_t item : user.history) list.push_back(row_of(item));
    histories.append(list);
    list.clear();
    for (const int32_t item : user.candidates) list.push_back(row_of(item));
    candidates.append(list);
  }
  const auto all = [](const Lists& lists) {
    std::vector<std::span<const int32_t>> spans;
    for (int64_t i = 0; i < lists.size(); ++i) spans.push_back(lists[i]);
    return padded(spans);
  };
  const PaddedLists texts = padded(words), clicked = all(histories);
  return {texts.numbers, targets, {texts.mask, clicked.numbers, clicked.mask, all(candidates).numbers}};
}

int64_t words_per_batch(const nn::Dataset& users, const nn::LoaderOptions& options) {
  nn::Loader loader(users, options);
  const int64_t count = std::min<int64_t>(16, loader.batches_per_epoch());
  int64_t words = 0;
  for (int64_t i = 0; i < count; ++i) words += sum(loader.next()->others[0].to(DType::int64)).item<int64_t>();
  return words / count;
}

}  // namespace linnet::examples
