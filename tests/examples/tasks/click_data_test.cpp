#include "support/tasks/click_data.h"

#include <doctest/doctest.h>
#include <linnet/linnet.h>

using namespace linnet::examples;

TEST_CASE("ClickData: sizes, and the same clicks from the same seed") {
  const ClickDataConfig config{.users = 20, .test_users = 5, .items = 100, .candidates = 4, .test_candidates = 9};
  const ClickData a(config), b(config);
  CHECK(a.train().size() == 20);
  CHECK(a.test().size() == 5);
  CHECK(a.titles().shape() == linnet::Shape{100, ClickData::kTitle});
  CHECK(a.titles().to_vector<int64_t>() == b.titles().to_vector<int64_t>());
  for (size_t i = 0; i < a.test().size(); ++i) {
    CHECK(a.test()[i].history == b.test()[i].history);
    CHECK(a.test()[i].candidates == b.test()[i].candidates);
    CHECK(a.test()[i].candidates.size() == 9);
    CHECK(a.test()[i].history.size() <= ClickData::kHistory);
  }
  ClickDataConfig other = config;
  other.seed = 1;
  CHECK(ClickData(other).titles().to_vector<int64_t>() != a.titles().to_vector<int64_t>());
}
