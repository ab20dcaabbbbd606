#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/core/shape.h>
#include <rapidcheck.h>

/// Properties that hold for all inputs, tried on a hundred random ones each; what fails is made as small as it still
/// fails. RC_PARAMS="seed=…", which a failure prints, makes the same inputs again, and "max_success=10000" more.

namespace linnet::test {

/// A test of one property: its arguments are made at random, and it fails by RC_ASSERT.
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
