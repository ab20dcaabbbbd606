#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <linnet/linnet.h>

#include "support/summaries/articles.h"

namespace linnet::examples {

/// The ids of a shared vocabulary: those of the tokenizer, and then three that do not occur in texts.
struct SummaryIds {
  int64_t padding, begin, end, count;
  explicit SummaryIds(const nn::Tokenizer& tokenizer)
      : padding(tokenizer.size()), begin(padding + 1), end(padding + 2), count(padding + 3) {}
};

/// The most tokens of an article, and of a summary with its end token.
struct SummaryLengths {
  int64_t source, target;
};

/// Articles and summaries as ids. Longer ones than `SummaryLengths` allows are cut at the end.
///
/// Shapes: a batch's inputs are the articles [B, N], its targets the next tokens of the summaries [B, M], and
/// others the padding mask of the articles [B, N] and the tokens so far [B, M]. Targets that are padding are
/// kIgnored.
class SummaryDataset : public nn::Dataset {
 public:
  static constexpr int64_t kIgnored = -100;

  SummaryDataset(const std::vector<Article>& articles, const nn::Tokenizer& tokenizer, SummaryLengths most);

  int64_t size() const override { return std::ssize(sources_); }
  nn::Batch collate(std::span<const int64_t> indices, RandomKey key) const override;

  /// The number of tokens of each article and its summary.
  std::vector<int64_t> lengths() const;
  int64_t tokens() const;  ///< of all articles and summaries
  int64_t cut_sources() const { return cut_sources_; }
  int64_t cut_targets() const { return cut_targets_; }

 private:
  using Ids = std::vector<int32_t>;
  Tensor padded(std::span<const int64_t> indices, const std::vector<Ids>& all, bool begins, int64_t padding) const;

  SummaryIds ids_;
  std::vector<Ids> sources_, targets_;
  int64_t cut_sources_ = 0, cut_targets_ = 0;
};

}  // namespace linnet::examples
