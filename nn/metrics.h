#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <linnet/core/tensor.h>
#include <linnet/ops/layers/loss.h>  // accuracy, and binary_cross_entropy_with_logits, which is the log loss

/// Metrics, by which models are compared. None of them is differentiable, and all are computed in float64 on the CPU
/// from tensors on any device. A metric of a whole data set is not the mean of the metrics of its batches, so collect
/// the scores of all batches first, for example with `concat`.

namespace linnet::nn {

// ---- Classification: which class has the largest logit ----

/// The mean over all classes of F1 = 2·P·R/(P + R). The precision P is the share of correct rows among those that
/// were predicted as the class; the recall R is the share of the class's rows that were predicted as it. F1 is 0 for
/// a class without a correct row.
///
///     double f = nn::macro_f1(model(inputs), targets);
///
/// Shapes: logits [..., C], targets [...].
/// Dtypes: targets are int64 or int32.
/// Throws: ShapeError for other shapes, and without rows or classes; DTypeError for targets of another dtype;
/// IndexError for a target that is not a class; ValueError for a logit that is NaN.
/// Source: scikit-learn's f1_score(average="macro", zero_division=0) with the labels of all classes.
double macro_f1(const Tensor& logits, const Tensor& targets, Where where = {});

// ---- Ranking: where the scores put the targets ----

/// The area under the ROC curve: the probability that a positive scores above a negative. Equal scores count half.
///
/// Shapes: both [N].
/// Dtypes: any. Targets are 0 or 1, or bool.
/// Cost: a sort.
/// Throws: ShapeError for other shapes; ValueError for a score that is NaN, for another target, and unless there are
/// a positive and a negative.
/// Source: Hanley & McNeil 1982; scikit-learn's roc_auc_score.
double roc_auc(const Tensor& scores, const Tensor& targets, Where where = {});

/// Σ (R_n − R_{n−1})·P_n over the distinct scores from the highest down. P_n and R_n are precision and recall when
/// all candidates with at least the n-th score are predicted as positive.
///
/// Shapes, Dtypes, Cost: as roc_auc.
/// Throws: as roc_auc, but no negative is needed.
/// Source: scikit-learn's average_precision_score.
double average_precision(const Tensor& scores, const Tensor& targets, Where where = {});

/// The mean of 1/rank over the positives of one list of candidates. Among equal scores the later candidate ranks
/// first, so that a model with equal scores gains nothing from the order of the candidates. Other libraries' metric
/// of this name takes only the first positive; with one positive both are the same.
///
/// Shapes, Dtypes, Cost: as roc_auc.
/// Throws: as roc_auc, but no negative is needed.
/// Source: the evaluation of the MIND data set (Wu et al. 2020).
double mean_reciprocal_rank(const Tensor& scores, const Tensor& targets, Where where = {});

/// The normalised discounted cumulative gain of one list of candidates, Σ (2^y − 1)/log2(rank + 1) over the first k,
/// divided by its value for the best order. A target y is a grade of relevance, or 0 or 1 for a click. Ties are as in
/// mean_reciprocal_rank.
///
/// Shapes, Dtypes, Cost: as roc_auc. Targets are whole numbers from 0 to 1000.
/// Throws: as roc_auc, but targets may be larger, and only one above 0 is needed; ValueError for k below 1.
/// Source: Järvelin & Kekäläinen 2002; Burges et al. 2005 for the gain 2^y − 1, which MIND's evaluation has too.
double ndcg(const Tensor& scores, const Tensor& targets, int64_t k, Where where = {});

// ---- ROUGE: what a summary shares with a reference ----

/// Precision is the share of the prediction that is in the reference, recall is the share of the reference that is in
/// the prediction, and F1 is 2·precision·recall/(precision + recall), or 0 if both are 0.
struct RougeScore {
  double precision = 0, recall = 0, f1 = 0;  ///< from 0 to 1
};

/// Options of ROUGE.
struct RougeOptions {
  bool use_stemmer = false;  ///< whether tokens of more than 3 bytes are replaced by their `porter_stem`
};

/// ROUGE of a prediction: the score with the reference that gives the best F1, or with the first of several such. A
/// token is a run of the letters a–z and of digits, after the text is lower-cased. All else separates tokens,
/// so `café` is `caf`.
///
///     std::vector<nn::RougeScore> scores;
///     scores.push_back(nn::rouge_n("the cat sat", {"the cat was here", "a cat sat"}, 2));
///     double percent = 100 * nn::mean_rouge(scores).f1;
///
/// `rouge_n` counts the n-grams that both have, `rouge_l` takes their longest common subsequence of tokens.
/// `rouge_lsum` treats each line as a sentence: a token of a reference's sentence is a hit if it is part of the
/// longest common subsequence with any sentence of the prediction, as long as both texts have unused copies of it.
/// Papers on CNN/DailyMail usually report `rouge_lsum` as R-L.
///
/// Cost, for P tokens of the prediction and R of a reference: rouge_n sorts n-grams; rouge_l takes time O(P·R) and
/// memory O(P + R); rouge_lsum takes time O(P·R) and one bit for each pair of tokens of the two longest sentences.
/// Throws: ValueError without references, and for n below 1.
/// Source: Lin 2004; the definitions of Google's rouge-score 0.1.2, with the same results.
RougeScore rouge_n(std::string_view prediction, const std::vector<std::string>& references, int64_t n,
                   const RougeOptions& options = {}, Where where = {});
RougeScore rouge_l(std::string_view prediction, const std::vector<std::string>& references,
                   const RougeOptions& options = {}, Where where = {});
RougeScore rouge_lsum(std::string_view prediction, const std::vector<std::string>& references,
                      const RougeOptions& options = {}, Where where = {});

/// The scores of a corpus: the mean precision, the mean recall and the mean F1 of its texts.
///
/// Throws: ValueError without scores.
RougeScore mean_rouge(const std::vector<RougeScore>& scores, Where where = {});

/// The stem of an English word, lower-cased: `connections` → `connect`. Bytes other than letters count as consonants.
///
/// Source: Porter 1980, with the changes that NLTK's PorterStemmer documents and makes by default.
std::string porter_stem(std::string_view word);

}  // namespace linnet::nn
