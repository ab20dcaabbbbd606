#include "support/summaries/dataset.h"

#include <algorithm>

#include <fmt/format.h>

namespace linnet::examples {
namespace {

/// The ids of a text, at most `most`. Counts a text that is cut.
std::vector<int32_t> ids_of(const std::string& text, const nn::Tokenizer& tokenizer, int64_t most, int64_t& cut) {
  const std::vector<int64_t> all = tokenizer.encode(text);
  if (std::ssize(all) > most) ++cut;
  std::vector<int32_t> ids(static_cast<size_t>(std::min<int64_t>(most, std::ssize(all))));
  std::copy_n(all.begin(), ids.size(), ids.begin());
  return ids;
}

}  // namespace

SummaryDataset::SummaryDataset(const std::vector<Article>& articles, const nn::Tokenizer& tokenizer,
                               SummaryLengths most)
    : ids_(tokenizer) {
  for (const Article& article : articles) {
    sources_.push_back(ids_of(article.text, tokenizer, most.source, cut_sources_));
    targets_.push_back(ids_of(article.summary, tokenizer, most.target - 1, cut_targets_));
    targets_.back().push_back(static_cast<int32_t>(ids_.end));
  }
}

/// The ids of the examples [B, N], with padding at their ends. If `begins`, they are the tokens so far: shifted by
/// one place, after the begin token.
Tensor SummaryDataset::padded(std::span<const int64_t> indices, const std::vector<Ids>& all, bool begins,
                              int64_t padding) const {
  size_t longest = 0;
  for (const int64_t index : indices) longest = std::max(longest, all[static_cast<size_t>(index)].size());
  std::vector<int64_t> rows;
  for (const int64_t index : indices) {
    const Ids& ids = all[static_cast<size_t>(index)];
    const size_t end = rows.size() + longest;
    if (begins) rows.push_back(ids_.begin);
    rows.insert(rows.end(), ids.begin(), begins ? ids.end() - 1 : ids.end());
    rows.resize(end, padding);
  }
  return tensor(rows).reshape({std::ssize(indices), static_cast<int64_t>(longest)});
}

nn::Batch SummaryDataset::collate(std::span<const int64_t> indices, RandomKey) const {
  for (const int64_t index : indices) {
    if (index < 0 || index >= size()) throw IndexError(fmt::format("article {} of {}", index, size()));
  }
  const Tensor sources = padded(indices, sources_, false, ids_.padding);
  return {.inputs = sources,
          .targets = padded(indices, targets_, false, kIgnored),
          .others = {ne(sources, ids_.padding), padded(indices, targets_, true, ids_.padding)}};
}

std::vector<int64_t> SummaryDataset::lengths() const {
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < sources_.size(); ++i) {
    lengths.push_back(std::ssize(sources_[i]) + std::ssize(targets_[i]));
  }
  return lengths;
}

int64_t SummaryDataset::tokens() const {
  int64_t count = 0;
  for (const int64_t length : lengths()) count += length;
  return count;
}

}  // namespace linnet::examples
