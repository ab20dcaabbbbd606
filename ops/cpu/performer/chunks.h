#pragma once

#include <linnet/ops/cpu/fastmax/causal_product.h>
#include <linnet/ops/cpu/fastmax/token_loader.h>
#include <linnet/ops/cpu/performer/runs.h>
#include <linnet/ops/cpu/performer/state.h>

namespace linnet::cpu::LINNET_ISA {

/// The products of FAVOR+ for one chunk, a range of positions of one head.
/// Causal chunks are cut into runs: see runs.h.
template <class T>
class PerformerChunks {
 public:
  /// `first` and `end` count positions (see `FastmaxInputs`).
  struct Range {
    int64_t head, first, end;
  };

  PerformerChunks(const FastmaxInputs& in, const TokenLoader<T>& loader, const PerformerFeatures<T>& features)
      : in_(in), loader_(loader), features_(features), width_(features.width()), count_(features.count()) {}

  /// state = the sums of the range's keys.
  void sum_keys(Range range, PerformerState<T> state) const {
    PerformerTerms<T> keys(width_, count_, kSubchunk);
    const Scratch<T> memory(2 * count_);
    T *before = memory.data(), *factor = before + count_;
    clear(state);
    std::fill_n(state.most, count_, PerformerFeatures<T>::lowest());
    for_each_subchunk(range, false, [&](int64_t first, int64_t size) {
      load(loader_.keys(), range.head, first, size, keys);
      std::copy_n(state.most, count_, before);
      for (int64_t n = 0; n < size; ++n) raise(count_, state.most, keys.phi[n]);
      if (rescale_factors(count_, before, state.most, factor)) {
        rescale_columns(count_, width_ + 1, factor, state.sums);
      }
      make_keys(state.most, 0, size, keys);
      add(0, size, keys, state);
    });
  }

  // ---- All queries see all keys ----

  /// Writes o = F / g for the queries of a range, from the sums of all keys, and g and c for backward.
  void attend(Range range, PerformerState<T> keys, const View& o, const View& denominators) const {
    PerformerTerms<T> queries(width_, count_, kSubchunk);
    const Scratch<T> memory(count_ * width_);
    const Rows<T> s{memory.data(), width_};
    transpose<T>(width_, count_, keys.sums, s);
    const T* z = keys.sums[width_];
    for_each_subchunk(range, false, [&](int64_t first, int64_t size) {
      load(loader_.queries(nullptr), range.head, first, size, queries);
      T g[kSubchunk], c[kSubchunk];
      make_queries(keys.most, 0, size, queries, c);
      const Rows<T> out = results(queries, o, range.head);
      tile_product<T>(size, width_, count_, {queries.phi.data, queries.phi.stride, 1}, s, out, false);
      dot_rows(size, [&](int64_t n) { return queries.phi[n]; }, [&](int64_t) { return z; }, g, count_);
      finish(range.head, queries, out, g, c, o, denominators);
    });
  }

  /// dq of a range, from the sums of all keys, and the sums of its queries.
  void differentiate_queries(Range range, PerformerState<T> keys, const Cotangents& cotangents, const View& dq,
                             PerformerState<T> own) const {
    PerformerTerms<T> queries(width_, count_, kSubchunk);
    const Scratch<T> memory(kSubchunk * count_);
    const Rows<T> dphi{memory.data(), count_};
    clear(own);
    std::copy_n(keys.most, count_, own.most);
    for_each_subchunk(range, false, [&](int64_t first, int64_t size) {
      load(loader_.queries(&cotangents), range.head, first, size, queries);
      make_queries_again(keys.most, 0, size, range.head, cotangents, queries);
      tile_product<T>(size, count_, width_ + 1, {queries.y.data, queries.y.stride, 1}, keys.sums, dphi, false);
      add(0, size, queries, own);
      store_query_gradients(range.head, queries, dphi, dq);
    });
  }

  /// dk and dv of a range, from the sums of all queries, which are relative to the exponents `most` of all keys.
  void differentiate_keys(Range range, const T* most, PerformerState<T> queries, const View& dk,
                          const View& dv) const {
    PerformerTerms<T> keys(width_, count_, kSubchunk);
    const Scratch<T> memory(kSubchunk * count_ + count_ * width_);
    const Rows<T> dphi{memory.data(), count_}, r{dphi[kSubchunk], width_};
    transpose<T>(width_, count_, queries.sums, r);
    for_each_subchunk(range, false, [&](int64_t first, int64_t size) {
      load(loader_.keys(), range.head, first, size, keys);
      make_keys(most, 0, size, keys);
      const Rows<T> out = results(keys, dv, range.head);
      tile_product<T>(size, width_, count_, {keys.phi.data, keys.phi.stride, 1}, r, out, false);
      store(keys, out, dv, range.head);
      tile_product<T>(size, count_, width_ + 1, {keys.y.data, keys.y.stride, 1}, queries.sums, dphi, false);
      store_key_gradients(range.head, keys, dphi, dk);
    });
  }

  // ---- Causal ----

  /// o, g and c for the queries of a range, from the sums of the keys before it. `own`, if not null, becomes the sums
  /// of its own keys, relative to the largest exponents up to its end.
  void attend_causally(Range range, PerformerState<T> before, const View& o, const View& denominators,
                       const PerformerState<T>* own) const {
    PerformerTerms<T> queries(width_, count_, kSubchunk), keys(width_, count_, kSubchunk);
    PerformerRuns<T> runs(count_, before.most);
    const Scratch<T> memory(count_ * (width_ + 1));
    const Rows<T> s{memory.data(), width_};
    T* z = s[count_];
    transpose<T>(width_, count_, before.sums, s);
    std::copy_n(before.sums[width_], count_, z);
    if (own != nullptr) clear(*own);
    for_each_subchunk(range, false, [&](int64_t first, int64_t size) {
      load(loader_.keys(), range.head, first, size, keys);
      load(loader_.queries(nullptr), range.head, first, size, queries);
      const Rows<T> out = results(queries, o, range.head);
      T g[kSubchunk], c[kSubchunk];
      runs.for_each(keys, [&](int64_t begin, int64_t end, bool rescaled) {
        if (rescaled) {
          rescale_rows(count_, width_, runs.factor, s);
          rescale_rows(count_, 1, runs.factor, Rows<T>{z, 1});
          if (own != nullptr) rescale_columns(count_, width_ + 1, runs.factor, own->sums);
        }
        make_keys(runs.most, begin, end, keys);
        make_queries(runs.most, begin, end, queries, c);
        causal_product<T>(count_, width_, end - begin, keys.phi.from(begin), keys.y.from(begin),
                          queries.phi.from(begin), s, out.from(begin));
        for (int64_t n = begin; n < end; ++n) g[n] = add_and_dot(keys.phi[n], queries.phi[n], z);
        if (own != nullptr) add(begin, end, keys, *own);
      });
      finish(range.head, queries, out, g, c, o, denominators);
    });
    if (own != nullptr) std::copy_n(runs.most, count_, own->most);
  }

  /// dq of a range, from the sums of the keys before it; `own` as in attend_causally.
  void differentiate_queries_causally(Range range, PerformerState<T> before, const Cotangents& cotangents,
                                      const View& dq, const PerformerState<T>* own) const {
    PerformerTerms<T> queries(width_, count_, kSubchunk), keys(width_, count_, kSubchunk);
    PerformerRuns<T> runs(count_, before.most);
    const Scratch<T> memory((kSubchunk + width_ + 1) * count_);
    const Rows<T> dphi{memory.data(), count_}, s{dphi[kSubchunk], count_};
    std::copy_n(before.sums.data, count_ * (width_ + 1), s.data);
    if (own != nullptr) clear(*own);
    for_each_subchunk(range, false, [&](int64_t first, int64_t size) {
      load(loader_.keys(), range.head, first, size, keys);
      load(loader_.queries(&cotangents), range.head, first, size, queries);
      runs.for_each(keys, [&](int64_t begin, int64_t end, bool rescaled) {
        if (rescaled) {
          rescale_columns(count_, width_ + 1, runs.factor, s);
          if (own != nullptr) rescale_columns(count_, width_ + 1, runs.factor, own->sums);
        }
        make_keys(runs.most, begin, end, keys);
        make_queries_again(runs.most, begin, end, range.head, cotangents, queries);
        causal_product<T>(width_ + 1, count_, end - begin, keys.y.from(begin), keys.phi.from(begin),
                          queries.y.from(begin), s, dphi.from(begin));
        if (own != nullptr) add(begin, end, keys, *own);
      });
      store_query_gradients(range.head, queries, dphi, dq);
    });
    if (own != nullptr) std::copy_n(runs.most, count_, own->most);
  }

  /// state = the sums of the range's queries, relative to its own `most`: the largest exponents of the keys before
  /// it.
  void sum_queries(Range range, const Cotangents& cotangents, PerformerState<T> state) const {
    PerformerTerms<T> queries(width_, count_, kSubchunk);
    clear(state);
    for_each_subchunk(range, false, [&](int64_t first, int64_t size) {
      load(loader_.queries(&cotangents), range.head, first, size, queries);
      make_queries_again(state.most, 0, size, range.head, cotangents, queries);
      add(0, size, queries, state);
    });
  }

  /// dk and dv of a range, from the sums of the queries after it, relative to the largest exponents of the keys up to
  /// its end. `most` are those of the keys before it. `own`, if not null, becomes the sums of its own queries,
  /// relative to `most`.
  void differentiate_keys_causally(Range range, const T* most, PerformerState<T> after, const Cotangents& cotangents,
                                   const View& dk, const View& dv, const PerformerState<T>* own) const {
    PerformerTerms<T> queries(width_, count_, kSubchunk), keys(width_, count_, kSubchunk);
    const int64_t tokens = range.end - range.first;
    const Scratch<T> memory(tokens * count_ + (kSubchunk + 2 * width_ + 1) * count_ + 2 * count_);
    const Rows<T> ends{memory.data(), count_}, dphi{ends[tokens], count_};  // ends: the exponents of each run
    const Rows<T> by_key{dphi[kSubchunk], count_}, by_value{by_key[width_ + 1], width_};
    T *factor = by_value[count_], *now = factor + count_;
    const Scratch<int64_t> begins(tokens + 1);
    const int64_t count_of_runs = find_runs(range, most, keys, begins.data(), ends);
    std::copy_n(after.sums.data, count_ * (width_ + 1), by_key.data);
    transpose<T>(width_, count_, after.sums, by_value);
    std::copy_n(count_of_runs > 0 ? ends[count_of_runs - 1] : most, count_, now);
    if (own != nullptr) clear(*own);
    // Makes the sums of queries relative to smaller exponents.
    const auto lower = [&](const T* to, bool running) {
      if (rescale_factors(count_, to, now, factor)) {
        if (running) {
          rescale_columns(count_, width_ + 1, factor, by_key);
          rescale_rows(count_, width_, factor, by_value);
        }
        if (own != nullptr) rescale_columns(count_, width_ + 1, factor, own->sums);
      }
      std::copy_n(to, count_, now);
    };
    int64_t run = count_of_runs - 1;
    for_each_subchunk(range, true, [&](int64_t first, int64_t size) {
      load(loader_.keys(), range.head, first, size, keys);
      load(loader_.queries(&cotangents), range.head, first, size, queries);
      const Rows<T> out = results(keys, dv, range.head);
      for (int64_t end = size; end > 0; --run) {
        const int64_t begin = begins[run] - first;
        lower(ends[run], true);
        make_keys(now, begin, end, keys);
        make_queries_again(now, begin, end, range.head, cotangents, queries);
        const auto backwards = [&](auto rows) { return decltype(rows){rows[end - 1], -rows.stride}; };
        causal_product<T>(count_, width_, end - begin, backwards(Rows<const T>(queries.phi)),
                          backwards(Rows<const T>(queries.y)), backwards(Rows<const T>(keys.phi)), by_value,
                          backwards(out));
        causal_product<T>(width_ + 1, count_, end - begin, backwards(Rows<const T>(queries.y)),
                          backwards(Rows<const T>(queries.phi)), backwards(Rows<const T>(keys.y)), by_key,
                          backwards(dphi));
        if (own != nullptr) add(begin, end, queries, *own);
        end = begin;
      }
      store(keys, out, dv, range.head);
      store_key_gradients(range.head, keys, dphi, dk);
    });
    if (own == nullptr) return;
    lower(most, false);
    std::copy_n(most, count_, own->most);
  }

 private:
  /// Tokens that are loaded together and stay in the L1 or L2 cache.
  static constexpr int64_t kSubchunk = 64;

  /// Calls `f(first, size)` for the subchunks of a range.
  template <class F>
  void for_each_subchunk(Range range, bool reverse, F f) const {
    const int64_t size = kSubchunk, subchunks = ceil_div(range.end - range.first, size);
    for (int64_t i = 0; i < subchunks; ++i) {
      const int64_t first = range.first + (reverse ? subchunks - 1 - i : i) * size;
      f(first, std::min(size, range.end - first));
    }
  }

  void clear(PerformerState<T> state) const { std::fill_n(state.sums.data, count_ * (width_ + 1), T{0}); }

  /// Loads tokens, with their exponents; y only for keys, or where cotangents are wanted. A key that does not exist
  /// has the lowest exponents.
  void load(const Side& side, int64_t head, int64_t position, int64_t size, PerformerTerms<T>& terms) const {
    terms.from = loader_.sequence(side, head);
    terms.first = position - side.causal_offset;
    terms.size = size;
    terms.x = tokens_of(terms.from, terms.first, size, width_, terms.x_copy);
    if (side.queries) {
      features_.query_exponents(size, terms.x, terms.phi);
      if (side.cotangents == nullptr) return;
      loader_.load_cotangents(*side.cotangents, head, terms.first, size, terms.y, terms.t);
      for (int64_t n = 0; n < size; ++n) terms.y[n][width_] = terms.t[n];
      return;
    }
    features_.key_exponents(size, terms.x, terms.phi);
    const Rows<const T> v = tokens_of(loader_.keys_of(in_.v, head), terms.first, size, width_, terms.y_copy);
    for (int64_t n = 0; n < size; ++n) {
      if (!terms.has(n)) std::fill_n(terms.phi[n], count_, PerformerFeatures<T>::lowest());
      std::copy_n(v[n], width_, terms.y[n]);
      terms.y[n][width_] = 1;
    }
  }

  /// The runs of a range: their first positions, and the largest exponents at their ends. Returns their number.
  int64_t find_runs(Range range, const T* most, PerformerTerms<T>& keys, int64_t* begins, Rows<T> ends) const {
    PerformerRuns<T> runs(count_, most);
    int64_t found = 0;
    for_each_subchunk(range, false, [&](int64_t first, int64_t size) {
      load(loader_.keys(), range.head, first, size, keys);
      runs.for_each(keys, [&](int64_t begin, int64_t, bool) {
        begins[found] = first + begin;
        std::copy_n(runs.most, count_, ends[found++]);
      });
    });
    return found;
  }

  void make_keys(const T* most, int64_t begin, int64_t end, PerformerTerms<T>& keys) const {
    for (int64_t n = begin; n < end; ++n) {
      if (keys.has(n)) {
        features_.make_key(most, keys.phi[n]);
      } else {
        std::fill_n(keys.phi[n], count_, T{0});
      }
    }
  }

  /// Also computes the shifts c.
  void make_queries(const T* most, int64_t begin, int64_t end, PerformerTerms<T>& queries, T* c) const {
    for (int64_t n = begin; n < end; ++n) {
      c[n] = features_.shift_of(most, queries.phi[n]);
      features_.make_query(most, c[n], queries.phi[n]);
    }
  }

  /// As make_queries, with the shifts that forward saved.
  void make_queries_again(const T* most, int64_t begin, int64_t end, int64_t head, const Cotangents& cotangents,
                          PerformerTerms<T>& queries) const {
    const T* c = data<T>(cotangents.g) + (in_.heads() + head) * in_.q.shape[2] + queries.first;
    for (int64_t n = begin; n < end; ++n) {
      if (queries.has(n)) {
        features_.make_query(most, c[n], queries.phi[n]);
      } else {
        std::fill_n(queries.phi[n], count_, T{0});
      }
    }
  }

  /// state += Σ ỹ_n φ_n over tokens begin … end − 1
  void add(int64_t begin, int64_t end, const PerformerTerms<T>& terms, PerformerState<T> state) const {
    tile_product<T>(width_ + 1, count_, end - begin, {terms.y[begin], 1, terms.y.stride}, terms.phi.from(begin),
                    state.sums, true);
  }

  /// z += key; query·z
  T add_and_dot(const T* key, const T* query, T* z) const {
    T total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t r = 0; r < count_; ++r) {
      z[r] += key[r];
      total += query[r] * z[r];
    }
    return total;
  }

  Rows<T> results(PerformerTerms<T>& terms, const View& to, int64_t head) const {
    const Rows<T> rows = head_of<T>(to, head / to.shape[1], head % to.shape[1]);
    return terms.from.results(terms.first, terms.size, width_, rows, terms.y_copy);
  }
  void store(const PerformerTerms<T>& terms, Rows<const T> from, const View& to, int64_t head) const {
    terms.from.store(terms.first, terms.size, width_, from, head_of<T>(to, head / to.shape[1], head % to.shape[1]));
  }

  /// Divides the rows F by g, and writes o, g and c.
  void finish(int64_t head, const PerformerTerms<T>& queries, Rows<T> rows, const T* g, const T* c, const View& o,
              const View& denominators) const {
    const int64_t all = o.shape[2];
    T *to_g = data<T>(denominators) + head * all, *to_c = to_g + in_.heads() * all;
    for (int64_t n = 0; n < queries.size; ++n) {
      const T inverse = g[n] != 0 ? 1 / g[n] : T{0};
      T* row = rows[n];
#pragma omp simd
      for (int64_t d = 0; d < width_; ++d) row[d] *= inverse;
      const int64_t i = queries.first + n;
      if (i < 0 || i >= all) continue;
      to_g[i] = g[n];
      to_c[i] = c[n];
    }
    store(queries, rows, o, head);
  }

  /// dq from the gradients of features, which it overwrites.
  void store_query_gradients(int64_t head, PerformerTerms<T>& queries, Rows<T> dphi, const View& dq) const {
    features_.differentiate(queries.size, queries.phi, dphi);
    const Rows<T> out = results(queries, dq, head);
    features_.query_gradients(queries.size, dphi, out);
    store(queries, out, dq, head);
  }
  void store_key_gradients(int64_t head, PerformerTerms<T>& keys, Rows<T> dphi, const View& dk) const {
    features_.differentiate(keys.size, keys.phi, dphi);
    const Rows<T> out = results(keys, dk, head);
    features_.key_gradients(keys.size, dphi, keys.x, out);
    store(keys, out, dk, head);
  }

  const FastmaxInputs& in_;
  const TokenLoader<T>& loader_;
  const PerformerFeatures<T>& features_;
  int64_t width_, count_;
};

}  // namespace linnet::cpu::LINNET_ISA
