#include <algorithm>
#include <numeric>

#include <linnet/linnet.h>

#include "tests/support/properties.h"

/// Compares views and broadcasting with simple arrays: a list of numbers and a list of sizes.

namespace linnet::test {
namespace {

using Sizes = std::vector<int64_t>;

struct Array {
  Sizes sizes;
  std::vector<double> numbers;  // row-major
};

int64_t count(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies());
}

/// The index of element `position`.
Sizes index_at(const Sizes& sizes, int64_t position) {
  Sizes index(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    index[d] = position % sizes[d];
    position /= sizes[d];
  }
  return index;
}

int64_t position_of(const Sizes& sizes, const Sizes& index) {
  int64_t position = 0;
  for (size_t d = 0; d < sizes.size(); ++d) position = position * sizes[d] + index[d];
  return position;
}

/// The array of these sizes whose number at each index is that of `from` at source(index).
template <class Source>
Array gathered(const Array& from, const Sizes& sizes, const Source& source) {
  Array to{sizes, {}};
  for (int64_t i = 0; i < count(sizes); ++i) {
    to.numbers.push_back(from.numbers[static_cast<size_t>(position_of(from.sizes, source(index_at(sizes, i))))]);
  }
  return to;
}

Array counting_array(const Sizes& sizes) {
  Array array{sizes, std::vector<double>(static_cast<size_t>(count(sizes)))};
  std::iota(array.numbers.begin(), array.numbers.end(), 0);
  return array;
}

bool same(const Tensor& x, const Array& array) {
  return x.shape() == Shape(array.sizes) && x.to_vector<double>() == array.numbers;
}

/// One step of a chain of views. The numbers choose one of the steps that the previous view allows.
using Step = std::tuple<int, int, int, int>;

int64_t pick(int number, int64_t choices) { return choices == 0 ? 0 : number % choices; }

/// Applies the step's view to both, or nothing if it is not possible.
bool apply(const Step& step, Tensor& x, Array& array) {
  const auto [kind, a, b, c] = step;
  const auto rank = static_cast<int64_t>(array.sizes.size());
  const int64_t dim = pick(a, rank);
  const auto d = static_cast<size_t>(dim);
  const int64_t signed_dim = b % 2 == 0 ? dim : dim - rank;  // the same one, counted from the end
  Sizes sizes = array.sizes;
  switch (kind % 9) {
    case 0: {  // transpose
      if (rank == 0) return false;
      const auto other = static_cast<size_t>(pick(b, rank));
      x = x.transpose(dim, static_cast<int64_t>(other) - (c % 2) * rank);
      std::swap(sizes[d], sizes[other]);
      array = gathered(array, sizes, [&](Sizes index) {
        std::swap(index[d], index[other]);
        return index;
      });
      return true;
    }
    case 1: {  // narrow
      if (rank == 0) return false;
      const int64_t start = pick(b, sizes[d] + 1), length = pick(c, sizes[d] - start + 1);
      x = x.narrow(dim, start, length);
      sizes[d] = length;
      array = gathered(array, sizes, [&](Sizes index) {
        index[d] += start;
        return index;
      });
      return true;
    }
    case 2: {  // slice with a step
      if (rank == 0) return false;
      const int64_t start = pick(b, sizes[d] + 1), by = 1 + pick(c, 3);
      x = x[{ellipsis, Slice{}}].slice(signed_dim, start, sizes[d] + c, by);
      sizes[d] = (sizes[d] - start + by - 1) / by;
      array = gathered(array, sizes, [&](Sizes index) {
        index[d] = start + index[d] * by;
        return index;
      });
      return true;
    }
    case 3: {  // select
      if (rank == 0 || sizes[d] == 0) return false;
      const int64_t at = pick(b, sizes[d]);
      x = x.select(signed_dim, c % 2 == 0 ? at : at - sizes[d]);
      sizes.erase(sizes.begin() + dim);
      array = gathered(array, sizes, [&](Sizes index) {
        index.insert(index.begin() + dim, at);
        return index;
      });
      return true;
    }
    case 4: {  // unsqueeze, and squeeze if possible
      if (rank > 0 && sizes[d] == 1 && c % 2 == 0) {
        x = x.squeeze(signed_dim);
        array.sizes.erase(array.sizes.begin() + dim);
      } else {
        const int64_t at = pick(b, rank + 1);
        x = x.unsqueeze(at);
        array.sizes.insert(array.sizes.begin() + at, 1);
      }
      return true;
    }
    case 5: {  // permute
      std::vector<int64_t> order(sizes.size());
      std::iota(order.begin(), order.end(), 0);
      for (int64_t i = 0; i < a; ++i) std::next_permutation(order.begin(), order.end());
      x = x.permute(order);
      for (size_t i = 0; i < order.size(); ++i) sizes[i] = array.sizes[static_cast<size_t>(order[i])];
      array = gathered(array, sizes, [&](const Sizes& index) {
        Sizes source(index.size());
        for (size_t i = 0; i < order.size(); ++i) source[static_cast<size_t>(order[i])] = index[i];
        return source;
      });
      return true;
    }
    case 6: {  // expand
      if (rank == 0 || sizes[d] != 1) return false;
      sizes[d] = 1 + pick(b, 3);
      x = x.expand(sizes);
      array = gathered(array, sizes, [&](Sizes index) {
        index[d] = 0;
        return index;
      });
      return true;
    }
    case 7:  // reshape to one dim, or two
      x = c % 2 == 0 ? x.reshape({-1}) : x.reshape({1, x.numel()});
      array.sizes = c % 2 == 0 ? Sizes{count(sizes)} : Sizes{1, count(sizes)};
      return true;
    default: {  // diagonal
      if (rank < 2) return false;
      const int64_t other = (dim + 1) % rank;
      const int64_t offset = pick(b, 5) - 2;
      const int64_t below = std::max<int64_t>(-offset, 0), beside = std::max<int64_t>(offset, 0);
      const int64_t length =
          std::max<int64_t>(0, std::min(sizes[d] - below, sizes[static_cast<size_t>(other)] - beside));
      x = x.diagonal(offset, dim, other);
      Sizes rest;
      for (int64_t i = 0; i < rank; ++i) {
        if (i != dim && i != other) rest.push_back(sizes[static_cast<size_t>(i)]);
      }
      rest.push_back(length);
      array = gathered(array, rest, [&](const Sizes& index) {
        Sizes source;
        size_t next = 0;
        for (int64_t i = 0; i < rank; ++i) {
          source.push_back(i == dim ? index.back() + below : i == other ? index.back() + beside : index[next++]);
        }
        return source;
      });
      return true;
    }
  }
}

}  // namespace

TEST_CASE("property: any chain of views shows what index arithmetic says, and its gradient counts what it shows") {
  check_property("chains of views", [] {
    const Sizes sizes = *arbitrary_shape();
    const auto steps = *rc::gen::container<std::vector<Step>>(rc::gen::tuple(
        rc::gen::inRange(0, 9), rc::gen::inRange(0, 6), rc::gen::inRange(0, 6), rc::gen::inRange(0, 6)));
    Array array = counting_array(sizes);
    Tensor whole = tensor(array.numbers).reshape(sizes).set_requires_grad();
    Tensor x = whole;
    for (const Step& step : steps) {
      if (count(array.sizes) > 5000 || array.sizes.size() > 6) break;
      apply(step, x, array);
      RC_ASSERT(same(x, array));
      RC_ASSERT(same(x.contiguous(), array));
    }
    // d Σ view / d element is how often the element occurs in the view.
    std::vector<double> times(static_cast<size_t>(count(sizes)));
    for (const double number : array.numbers) ++times[static_cast<size_t>(number)];
    if (!x.requires_grad()) return;
    backward(sum(x));
    RC_ASSERT(whole.grad().to_vector<double>() == times);
  });
}

TEST_CASE("property: shapes broadcast by NumPy's rule, and elements with them") {
  check_property("broadcasting", [] {
    const Sizes a = *arbitrary_shape(), b = *arbitrary_shape();
    const size_t rank = std::max(a.size(), b.size());
    const auto padded = [&](Sizes sizes) {
      sizes.insert(sizes.begin(), rank - sizes.size(), 1);
      return sizes;
    };
    const Sizes long_a = padded(a), long_b = padded(b);
    Sizes result;
    bool fit = true;
    for (size_t d = 0; d < rank; ++d) {
      fit = fit && (long_a[d] == long_b[d] || long_a[d] == 1 || long_b[d] == 1);
      result.push_back(long_a[d] == 1 ? long_b[d] : long_a[d]);
    }
    const Array left = counting_array(a), right = counting_array(b);
    const Tensor x = tensor(left.numbers).reshape(a), y = tensor(right.numbers).reshape(b);
    if (!fit) {
      RC_ASSERT_THROWS_AS(broadcast_shapes(a, b), ShapeError);
      RC_ASSERT_THROWS_AS(x - y, ShapeError);
      return;
    }
    RC_ASSERT(broadcast_shapes(a, b) == Shape(result));
    const auto spread = [&](const Array& from, const Sizes& sizes) {
      return gathered({sizes, from.numbers}, result, [&](Sizes index) {
        for (size_t d = 0; d < rank; ++d) {
          if (sizes[d] == 1) index[d] = 0;
        }
        return index;
      });
    };
    Array expected = spread(left, long_a);
    const Array subtracted = spread(right, long_b);
    for (size_t i = 0; i < expected.numbers.size(); ++i) expected.numbers[i] -= subtracted.numbers[i];
    RC_ASSERT(same(x - y, expected));
  });
}

TEST_CASE("property: sums over any dims, kept or not, are sums over index arithmetic") {
  check_property("sums", [] {
    const Sizes sizes = *arbitrary_shape();
    const auto chosen = *rc::gen::container<std::vector<bool>>(sizes.size(), rc::gen::arbitrary<bool>());
    const bool keepdim = *rc::gen::arbitrary<bool>();
    const Array array = counting_array(sizes);
    std::vector<int64_t> dims;
    Sizes kept, shown;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (chosen[d]) dims.push_back(static_cast<int64_t>(d) - (keepdim ? static_cast<int64_t>(sizes.size()) : 0));
    }
    const bool all = dims.empty();  // no dims are all dims
    for (size_t d = 0; d < sizes.size(); ++d) {
      const bool summed = all || chosen[d];
      kept.push_back(summed ? 1 : sizes[d]);
      if (keepdim || !summed) shown.push_back(kept.back());
    }
    std::vector<double> sums(static_cast<size_t>(count(kept)));
    for (int64_t i = 0; i < count(sizes); ++i) {
      Sizes index = index_at(sizes, i);
      for (size_t d = 0; d < index.size(); ++d) {
        if (kept[d] == 1) index[d] = 0;
      }
      sums[static_cast<size_t>(position_of(kept, index))] += array.numbers[static_cast<size_t>(i)];
    }
    RC_ASSERT(same(sum(tensor(array.numbers).reshape(sizes), dims, keepdim), {shown, sums}));
  });
}

}  // namespace linnet::test
