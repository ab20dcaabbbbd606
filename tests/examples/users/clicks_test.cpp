/// Training examples: a click with other news of its impression. A batch contains each item once.

#include "support/users/clicks.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include "support/users/generated_clicks.h"

using namespace linnet;
using namespace linnet::examples;

namespace {

using Numbers = std::vector<int64_t>;

/// Items of one word each. The word's id is the item's number plus 10.
ClickSet small_set(std::vector<Impression> train) {
  ClickSet set;
  for (int32_t i = 0; i < 20; ++i) set.items.append(std::vector<int32_t>{10 + i});
  set.train = std::move(train);
  return set;
}

/// The items of the candidates of example `index`.
Numbers candidates_of(const Clicks& clicks, int64_t index, uint64_t stream) {
  const std::vector<int64_t> indices{index};
  const nn::Batch batch = clicks.collate(indices, {1, stream});
  Numbers items;
  for (const int64_t row : batch.others[3].to_vector<int64_t>()) {
    items.push_back(batch.inputs.to_vector<int64_t>()[static_cast<size_t>(row)] - 10);
  }
  return items;
}

Settings small_settings() {
  Settings settings;
  settings.of_users.users = 30;
  settings.of_users.test_users = 7;
  settings.of_users.items = 100;
  return settings;
}

}  // namespace

TEST_CASE("clicks: each with four others of its own impression, drawn anew, and repeated where there are fewer") {
  const ClickSet set = small_set({{1, {0}, {1, 2, 3, 4, 5, 6, 7}, {true, false, false, false, false, false, true}},
                                  {2, {0}, {8, 9}, {true, true}},                          // no others
                                  {3, {0}, {8, 9}, {false, false}},                        // no clicks
                                  {4, {}, {10, -1, 11, 12}, {true, false, false, false}},  // one without news
                                  {5, {}, {-1, 13}, {true, false}}});
  const Clicks clicks(set);
  REQUIRE(clicks.size() == 3);
  std::set<Numbers> drawn;
  for (uint64_t stream = 0; stream < 50; ++stream) {
    Numbers first = candidates_of(clicks, 0, stream);
    CHECK(first.size() == 5);
    CHECK(first[0] == 1);
    CHECK(candidates_of(clicks, 1, stream)[0] == 7);
    const std::set<int64_t> others(first.begin() + 1, first.end());
    CHECK(others.size() == 4);
    CHECK(*others.begin() >= 2);
    CHECK(*others.rbegin() <= 6);
    drawn.insert(first);
    Numbers few = candidates_of(clicks, 2, stream);
    std::sort(few.begin() + 1, few.end());
    CHECK(few == Numbers{10, 11, 11, 12, 12});
  }
  CHECK(drawn.size() > 20);
  CHECK(candidates_of(clicks, 0, 3) == candidates_of(clicks, 0, 3));
  const std::vector<int64_t> beyond{3};
  CHECK_THROWS_AS(clicks.collate(beyond, {}), IndexError);
}

TEST_CASE("a batch of users: each item once, histories and candidates as rows, padding after them") {
  Lists items;
  for (const auto& words : {std::vector<int32_t>{5, 6, 7}, {8}, {9, 4}}) items.append(words);
  const std::vector<int32_t> history{2, 0};
  const nn::Batch batch = user_batch(items, {{history, {0}}, {{}, {2}}}, zeros({2}));
  CHECK(batch.inputs.shape() == Shape{2, 3});
  CHECK(batch.inputs.to_vector<int64_t>() == Numbers{9, 4, 0, 5, 6, 7});
  CHECK(batch.others[0].to_vector<bool>() == std::vector<bool>{true, true, false, true, true, true});
  CHECK(batch.others[1].to_vector<int64_t>() == Numbers{0, 1, 0, 0});
  CHECK(batch.others[2].to_vector<bool>() == std::vector<bool>{true, true, false, false});
  CHECK(batch.others[3].to_vector<int64_t>() == Numbers{1, 0});
  CHECK(user_batch(items, {{{}, {1}}}, zeros({1})).others[1].shape() == Shape{1, 1});
}

TEST_CASE("generated clicks: sizes, lengths, and the same from the same seed") {
  const Settings settings = small_settings();
  const ClickSet a = generated_clicks(settings), b = generated_clicks(settings);
  CHECK(a.name == "stand-in: generated clicks (30 users, 7 to test, 100 items, seed 1)");
  CHECK(a.train.size() == 30);
  CHECK(a.dev.size() == 7);
  CHECK(a.items.size() == 100);
  CHECK(std::ranges::equal(a.items.numbers(), b.items.numbers()));
  CHECK(std::ranges::max(a.items.numbers()) < a.vocabulary);
  CHECK(std::ranges::min(a.items.numbers()) >= 2);
  for (size_t i = 0; i < a.dev.size(); ++i) {
    CHECK(a.dev[i].history == b.dev[i].history);
    CHECK(a.dev[i].candidates == b.dev[i].candidates);
    CHECK(a.dev[i].candidates.size() == 20);
    CHECK(a.dev[i].history.size() >= 4);
    CHECK(a.dev[i].history.size() <= 10);
    CHECK(std::ranges::count(a.dev[i].clicked, true) == 1);
  }
  CHECK(a.train[0].candidates.size() == 5);
  Settings other = settings;
  other.lra.data_seed = 2;
  CHECK_FALSE(std::ranges::equal(generated_clicks(other).items.numbers(), a.items.numbers()));
  other = settings;
  other.of_users.history = 3;
  other.of_users.title_words = 2;
  const ClickSet cut = generated_clicks(other);
  CHECK(cut.train[0].history == std::vector<int32_t>(a.train[0].history.end() - 3, a.train[0].history.end()));
  CHECK(cut.items[0].size() == 2);
}
