#pragma once

#include <array>
#include <string>
#include <vector>

/// The results of Wu et al. 2021. The programs print them beside linnet's.

namespace linnet::examples {

/// A row of table 5: the test data of MIND, in %.
struct PublishedRecommendation {
  std::string model;
  std::array<double, 4> values;  ///< AUC, MRR, nDCG@5, nDCG@10
};
const std::vector<PublishedRecommendation>& published_recommendations();

/// The change from softmax attention to Fastformer as table 8 prints it, on ads of a company, which were not
/// published: AUC 0.7299 to 0.7394, memory of training 30 to 25 GB, latency 176 to 163 ms.
struct PublishedConversion {
  const char* model = "Fastformer";
  const char* auc = "+1.3 %";
  const char* memory = "-16.7 %";
  const char* latency = "-7.2 %";
};

}  // namespace linnet::examples
