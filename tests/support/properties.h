#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/core/shape.h>
#include <rapidcheck.h>

/// Properties that hold for all inputs, each tested with a hundred random ones. RapidCheck shrinks an input that
/// fails. A failure prints RC_PARAMS="seed=…", with which the same inputs are drawn again; "max_success=10000" tests
/// more inputs.

namespace linnet::test {

/// Tests one property, a function that gets random arguments and fails by RC_ASSERT.
template <class Property>
void check_property(const std::string& description, Property&& property) {
  CHECK(rc::check(description, std::forward<Property>(property)));
}

/// A shape of at most `most_dims` dims of sizes from 0 to 4, mostly above 0.
inline rc::Gen<std::vector<int64_t>> arbitrary_shape(int most_dims = 4) {
  return rc::gen::mapcat(rc::gen::inRange(0, most_dims + 1), [](int dims) {
    return rc::gen::container<std::vector<int64_t>>(
        static_cast<size_t>(dims), rc::gen::weightedElement<int64_t>({{1, 0}, {4, 1}, {5, 2}, {5, 3}, {3, 4}}));
  });
}

}  // namespace linnet::test
