#include "support/report/published.h"

namespace linnet::examples {
namespace {

constexpr const char* kFast = "Gerami et al. 2024, table 1";
constexpr const char* kSkyformer = "Chen et al. 2021 (Skyformer), table 1";
constexpr const char* kArena = "Tay et al. 2021, released code";
constexpr const char* kFastSpeed = "Gerami et al. 2024, table 2, A5000";

}  // namespace

const std::vector<PublishedRow>& published_accuracies() {
  static const std::vector<PublishedRow> rows{
      {"softmax", "Gerami et al. 2024 and Chen et al. 2021, table 1", {38.37, 61.95, 80.69, 40.57, 65.26}, 57.37},
      {"fastmax2", kFast, {37.40, 64.30, 78.11, 43.18, 66.55}, 57.90},
      {"fastmax1", kFast, {37.20, 63.25, 78.21, 42.76, 66.67}, 57.62},
      {"informer", kFast, {36.95, 63.60, 75.25, 37.55, 50.33}, 52.74},
      {"reformer", kFast, {37.00, 64.75, 78.50, 43.72, 66.40}, 58.07},
      {"performer", kFast, {37.80, 64.39, 79.05, 39.78, 67.41}, 57.69},
      {"linformer", kSkyformer, {37.45, 58.93, 78.19, 37.96, 60.93}, 54.69},
      {"informer", kSkyformer, {32.53, 62.64, 77.57, 38.10, 57.83}, 53.73},
      {"performer", kSkyformer, {38.02, 64.19, 80.04, 41.43, 66.30}, 58.00},
      {"reformer", kSkyformer, {37.68, 62.93, 78.99, 48.87, 66.49}, 58.99},
      {"bigbird", kSkyformer, {39.25, 63.86, 80.28, 43.16, 68.72}, 59.05}};
  return rows;
}

const std::vector<PublishedRow>& published_apart() {
  static const std::vector<PublishedRow> rows{
      {"linear", "Tay et al. 2021, repeated by Gerami et al. 2024", {16.13, 65.90, 53.09, 42.34, 75.30}, 50.55},
      {"longformer", kArena, {35.63, 62.85, 56.89, 42.22, 69.71}, 53.46}};
  return rows;
}

const std::vector<PublishedTexts>& published_classifications() {
  static const std::vector<PublishedTexts> rows{{"softmax", {{{65.32, 42.31}, {52.04, 42.69}, {80.90, 60.02}}}},
                                                {"longformer", {{{65.45, 42.48}, {52.21, 43.36}, {81.36, 62.59}}}},
                                                {"bigbird", {{{66.14, 42.96}, {53.23, 44.03}, {81.93, 63.58}}}},
                                                {"linformer", {{{66.20, 43.13}, {53.17, 44.34}, {82.16, 63.77}}}},
                                                {"linear", {{{66.12, 43.04}, {53.09, 44.30}, {82.25, 63.81}}}},
                                                {"poolingformer", {{{66.05, 43.00}, {53.78, 44.52}, {82.46, 64.10}}}},
                                                {"fastformer", {{{66.13, 43.23}, {54.10, 44.65}, {82.34, 63.89}}}}};
  return rows;
}

const std::vector<PublishedRow>& published_speeds() {
  static const std::vector<PublishedRow> rows{{"softmax", kFastSpeed, {6.4, 1.8, 1.7, 3.0, 6.1}, 3.80},
                                              {"fastmax2", kFastSpeed, {11.6, 6.1, 6.9, 3.0, 6.8}, 6.90},
                                              {"fastmax1", kFastSpeed, {47.4, 26.7, 24.7, 12.8, 24.4}, 27.20}};
  return rows;
}

}  // namespace linnet::examples
