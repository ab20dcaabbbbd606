/// Compares the factorised form of Fastmax with the explicit form. Also tests its dropout, and the choice of the
/// form.

#include <linnet/ops/fastmax/fastmax.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/reduction.h>

#include "tests/ops/attention/attention_reference.h"
#include "tests/support/same_bits.h"

using namespace linnet;
using namespace linnet::test;

namespace {

struct Inputs {
  Tensor q, k, v;
};

Inputs draw(int64_t b, int64_t h, int64_t n, int64_t m, int64_t d, DType dtype) {
  return {normal({b, h, n, d}, 1, dtype), normal({b, h, m, d}, 2, dtype), normal({b, h, m, d}, 3, dtype)};
}

Inputs in_double(const Inputs& in) {
  return {in.q.to(DType::float64), in.k.to(DType::float64), in.v.to(DType::float64)};
}

/// Gradients of q, k and v, and the output.
std::vector<Tensor> all_results(Inputs in, FastmaxOptions options, FastmaxForm form) {
  for (Tensor* x : {&in.q, &in.k, &in.v}) {
    *x = x->detach();
    x->set_requires_grad();
  }
  options.form = form;
  Generator rng(7);
  options.generator = &rng;
  const Tensor o = fastmax(in.q, in.k, in.v, options);
  std::vector<Tensor> results = grad({o}, {in.q, in.k, in.v}, {.grad_outputs = {normal(o.shape(), 4, o.dtype())}});
  results.push_back(o.detach());
  return results;
}

void check_near(const std::vector<Tensor>& a, const std::vector<Tensor>& b, double tolerance) {
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_error(a[i], b[i].to_vector<double>()) < tolerance);
  }
}

constexpr FastmaxDropout kKinds[] = {FastmaxDropout::quadratic, FastmaxDropout::standard, FastmaxDropout::token};
constexpr FastmaxNormaliser kNormalisers[] = {FastmaxNormaliser::clean, FastmaxNormaliser::shared};

}  // namespace

TEST_CASE("fastmax: the quadratic and the factorised form agree with the explicit one") {
  struct Size {
    int64_t n, m, d;
  };
  for (const Size size :
       {Size{5, 5, 3}, {70, 70, 6}, {300, 300, 32}, {100, 140, 16}, {140, 100, 16}, {300, 300, 64}, {600, 550, 17}}) {
    const Inputs in = draw(2, 2, size.n, size.m, size.d, DType::float64);
    const Tensor padding_mask = keep_all_but(2, size.m, {{0, 0}, {0, 3}, {0, size.m - 1}, {1, 2}});
    for (const bool causal : {false, true}) {
      for (const FastmaxOptions& options :
           {FastmaxOptions{.causal = causal}, FastmaxOptions{.order = 1, .causal = causal},
            FastmaxOptions{.scale = FastmaxScale::sqrt, .causal = causal, .padding_mask = padding_mask},
            FastmaxOptions{.order = 1, .causal = causal, .padding_mask = padding_mask},
            FastmaxOptions{.coefficients = {{1.5, -0.7, 0.3}}, .scale = 0.3, .causal = causal},
            FastmaxOptions{.normalisation = FastmaxNormalisation::none,
                           .scale = 0.4,
                           .causal = causal,
                           .padding_mask = padding_mask}}) {
        CAPTURE(size.n);
        CAPTURE(size.m);
        CAPTURE(size.d);
        CAPTURE(causal);
        CAPTURE(options.order);
        const auto expected = all_results(in, options, FastmaxForm::reference);
        check_near(all_results(in, options, FastmaxForm::quadratic), expected, 1e-12);
        check_near(all_results(in, options, FastmaxForm::factorised), expected, 1e-12);
      }
    }
  }
}

TEST_CASE("fastmax: the forms agree at 4,096 tokens, in both precisions") {
  for (const auto& [dtype, tolerance] : {std::pair{DType::float32, 1e-5}, {DType::float64, 1e-12}}) {
    const Inputs in = draw(1, 2, 4096, 4096, 16, dtype);  // with more states than are in memory at a time
    for (const bool causal : {false, true}) {
      for (const int order : {1, 2}) {
        const FastmaxOptions options{.order = order, .causal = causal};
        check_near(all_results(in, options, FastmaxForm::factorised),
                   all_results(in, options, FastmaxForm::quadratic), tolerance);
      }
    }
  }
}

TEST_CASE("Factorised fastmax: in float32 at every kind of size, against float64") {
  struct Size {
    int64_t b, h, n, d;
  };
  for (const Size size : {Size{1, 2, 1, 1},
                          {1, 2, 64, 1},
                          {1, 2, 63, 5},
                          {1, 2, 65, 17},
                          {1, 2, 130, 33},
                          {1, 1, 128, 65},
                          {8, 4, 100, 16}}) {
    const Inputs in = draw(size.b, size.h, size.n, size.n, size.d, DType::float32);
    for (const bool causal : {false, true}) {
      for (const int order : {1, 2}) {
        CAPTURE(size.n);
        CAPTURE(size.d);
        CAPTURE(causal);
        CAPTURE(order);
        // A single entry is standardised to 0, and so is its gradient.
        const FastmaxOptions options{.order = order, .scale = FastmaxScale::unit, .causal = causal};
        check_near(all_results(in, options, FastmaxForm::factorised),
                   all_results(in_double(in), options, FastmaxForm::reference), 1e-5);
      }
    }
  }
}

TEST_CASE("Causal fastmax of first order: long sums of one sign keep their digits") {
  Inputs in = draw(1, 32, 16384, 16384, 4, DType::float32);
  in.v = full(in.v.shape(), 1.1);  // every addition of it rounds in the same direction
  const FastmaxOptions options{.order = 1, .causal = true};
  const auto exact = all_results(in_double(in), options, FastmaxForm::factorised);
  const auto results = all_results(in, options, FastmaxForm::factorised);
  CHECK(relative_error(results[3], exact[3].to_vector<double>()) < 1e-5);
  CHECK(relative_error(results[2], exact[2].to_vector<double>()) < 2e-5);  // dv
}

TEST_CASE("Factorised fastmax: a head wider than a block of features") {
  const Inputs in = draw(1, 1, 130, 130, 200, DType::float64);
  for (const bool causal : {false, true}) {
    check_near(all_results(in, {.causal = causal}, FastmaxForm::factorised),
               all_results(in, {.causal = causal}, FastmaxForm::reference), 1e-12);
  }
}

TEST_CASE("Factorised fastmax: the future changes no bit of the past") {
  const int64_t n = 600;
  const Inputs in = draw(1, 2, n, n, 32, DType::float32);
  for (const auto& [order, dropout] : {std::pair{2, 0.0}, {2, 0.25}, {1, 0.0}}) {
    const auto attend = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
      Generator rng(3);
      return fastmax(
          q, k, v,
          {.order = order, .causal = true, .form = FastmaxForm::factorised, .dropout = dropout, .generator = &rng});
    };
    const Tensor expected = attend(in.q, in.k, in.v);
    for (const int64_t t : {1, 63, 64, 130, 256, 319, 320, 599}) {
      for (const double value : {3.0, std::numeric_limits<double>::quiet_NaN()}) {
        CAPTURE(order);
        CAPTURE(t);
        const Tensor o = attend(with_tokens(in.q, 0, t, n, value), with_tokens(in.k, 0, t, n, value),
                                with_tokens(in.v, 0, t, n, value));
        CHECK(same_bits(o.narrow(2, 0, t), expected.narrow(2, 0, t)));
      }
    }
  }
}

TEST_CASE("Factorised fastmax: what padding holds changes no bit, and a row without keys is 0") {
  const Inputs in = draw(2, 2, 150, 150, 8, DType::float64);
  Tensor padding_mask = keep_all_but(2, 150, {{0, 0}, {0, 1}, {0, 64}, {0, 149}});
  padding_mask.narrow(0, 1, 1).fill_(false);
  for (const auto& [order, causal] : {std::pair{1, false}, {1, true}, {2, false}, {2, true}}) {
    const FastmaxOptions options{.order = order, .causal = causal, .padding_mask = padding_mask};
    const auto expected = all_results(in, options, FastmaxForm::factorised);
    check_near(expected, all_results(in, options, FastmaxForm::reference), 1e-12);
    for (const Tensor& x : expected) {
      CHECK(same_bits(x.narrow(0, 1, 1), zeros({1, 2, 150, 8}, DType::float64)));
      if (causal) CHECK(same_bits(x.narrow(0, 0, 1).narrow(2, 0, 1), zeros({1, 2, 1, 8}, DType::float64)));
    }
    for (const double value : {1e30, std::numeric_limits<double>::quiet_NaN()}) {
      Inputs changed = in;
      for (Tensor* x : {&changed.k, &changed.v}) {
        *x = with_tokens(*x, 0, 0, 2, value);
        *x = with_tokens(with_tokens(*x, 0, 64, 65, value), 0, 149, 150, value);
        *x = with_tokens(*x, 1, 0, 150, value);
      }
      check_same_bits(all_results(changed, options, FastmaxForm::factorised), expected);
    }
  }
}

TEST_CASE("fastmax: what a query holds that sees no key changes no bit") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const FastmaxForm form : {FastmaxForm::factorised, FastmaxForm::quadratic}) {
    for (const int order : {1, 2}) {
      CAPTURE(order);
      // The first keys are padding, or all of them.
      const Inputs in = draw(2, 2, 150, 150, 8, DType::float64);
      Tensor padding_mask = keep_all_but(2, 150, {{0, 0}, {0, 1}});
      padding_mask.narrow(0, 1, 1).fill_(false);
      const FastmaxOptions options{.order = order, .causal = true, .padding_mask = padding_mask};
      Inputs changed = in;
      changed.q = with_tokens(with_tokens(in.q, 0, 0, 2, nan), 1, 0, 150, nan);
      check_same_bits(all_results(changed, options, form), all_results(in, options, form));
      // There are fewer keys than queries.
      const Inputs longer = draw(1, 2, 150, 70, 8, DType::float64);
      changed = longer;
      changed.q = with_tokens(longer.q, 0, 0, 80, nan);
      check_same_bits(all_results(changed, {.order = order, .causal = true}, form),
                      all_results(longer, {.order = order, .causal = true}, form));
    }
  }
}

TEST_CASE("Factorised fastmax: the same bits with any number of threads") {
  struct Case {
    int order;
    double dropout;
    int64_t tokens;  // so many that not all states are in memory together, or fewer
  };
  for (const auto& [order, dropout, tokens] :
       {Case{2, 0, 1000}, {2, 0.1, 1000}, {2, 0, 1500}, {1, 0, 1000}, {1, 0, 12000}}) {
    const Inputs in = draw(1, 3, tokens, tokens, 16, DType::float32);
    for (const bool causal : {false, true}) {
      CAPTURE(order);
      CAPTURE(tokens);
      const FastmaxOptions options{.order = order, .causal = causal, .dropout = dropout};
      // 1 and 3 threads share three heads evenly.
      check_threads_change_no_bit([&] { return all_results(in, options, FastmaxForm::factorised); });
    }
  }
}

TEST_CASE("Factorised fastmax: memory beside the tensors does not grow with the tokens") {
  for (const int order : {1, 2}) {
    const auto scratch = [&](int64_t n) {
      Inputs in = draw(1, 2, n, n, 16, DType::float32);
      reset_peak_memory();
      const int64_t live = memory_stats().live;
      all_results(in, {.order = order, .causal = true}, FastmaxForm::factorised);
      return memory_stats().peak - live - 6 * 2 * n * 16 * 4;  // o, its cotangent, and the gradients, and 1 to spare
    };
    const int64_t less = scratch(16384), more = scratch(32768);
    CAPTURE(order);
    CHECK(more <= less + (int64_t{1} << 20));
  }
}

TEST_CASE("fastmax dropout: the expected output is that without, when the denominator is clean") {
  const Inputs in = draw(1, 1, 6, 6, 3, DType::float64);
  for (const FastmaxDropout kind : kKinds) {
    for (const bool causal : {false, true}) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(causal);
      const FastmaxOptions plain{.scale = FastmaxScale::sqrt, .causal = causal};
      const Tensor expected = fastmax(in.q, in.k, in.v, plain);
      FastmaxOptions options = plain;
      Generator rng(11);
      options.dropout = 0.25;
      options.dropout_kind = kind;
      options.generator = &rng;
      constexpr int kDraws = 20000;
      Tensor total = zeros(expected.shape(), DType::float64), squares = total.clone();
      for (int i = 0; i < kDraws; ++i) {
        const Tensor o = fastmax(in.q, in.k, in.v, options);
        total = total + o;
        squares = squares + o * o;
      }
      const auto sums = total.to_vector<double>(), square_sums = squares.to_vector<double>(),
                 means = expected.to_vector<double>();
      for (size_t i = 0; i < means.size(); ++i) {
        const double mean = sums[i] / kDraws, deviation = std::sqrt(square_sums[i] / kDraws - mean * mean);
        CHECK(deviation > 1e-3);  // dropout has an effect
        CHECK(std::abs(mean - means[i]) < 5 * deviation / std::sqrt(kDraws));
      }
    }
  }
}

TEST_CASE("fastmax dropout of tokens is the same in both forms") {
  for (const FastmaxNormaliser denominator : kNormalisers) {
    for (const bool causal : {false, true}) {
      for (const auto& [n, m] : {std::pair<int64_t, int64_t>{150, 150}, {70, 150}, {150, 70}}) {
        const Inputs in = draw(2, 3, n, m, 8, DType::float64);
        const Tensor padding_mask = keep_all_but(2, m, {{0, 0}, {0, 3}, {1, 65}});
        const FastmaxOptions options{.scale = FastmaxScale::sqrt,
                                     .causal = causal,
                                     .padding_mask = padding_mask,
                                     .dropout = 0.3,
                                     .dropout_kind = FastmaxDropout::token,
                                     .dropout_normaliser = denominator};
        const auto a = all_results(in, options, FastmaxForm::factorised);
        check_near(a, all_results(in, options, FastmaxForm::quadratic), 1e-11);
        CHECK(relative_error(a[3],
                             fastmax(in.q, in.k, in.v,
                                     {.scale = FastmaxScale::sqrt, .causal = causal, .padding_mask = padding_mask})
                                 .to_vector<double>()) > 1e-2);
      }
    }
  }
}

TEST_CASE("fastmax dropout: causal, the last query draws what it draws in full") {
  for (const FastmaxDropout kind : kKinds) {
    for (const FastmaxNormaliser denominator : kNormalisers) {
      const Inputs in = draw(1, 2, 200, 200, 8, DType::float64);
      FastmaxOptions options{
          .scale = FastmaxScale::unit, .dropout = 0.2, .dropout_kind = kind, .dropout_normaliser = denominator};
      const Tensor full = all_results(in, options, FastmaxForm::factorised)[3];
      options.causal = true;
      const Tensor causal = all_results(in, options, FastmaxForm::factorised)[3];
      CHECK(relative_error(causal.narrow(2, 199, 1), full.narrow(2, 199, 1).to_vector<double>()) < 1e-12);
    }
  }
}

TEST_CASE("fastmax dropout keeps the share of features that it says") {
  // With values of 1 and a denominator without dropout, the output of order 0 is the mean of both factors' products.
  const Inputs in = draw(1, 1, 2000, 2000, 4, DType::float64);
  Generator rng(5);
  const Tensor o = fastmax(in.q, in.k, ones({1, 1, 2000, 4}, DType::float64),
                           {.coefficients = {{1, 0, 0}},
                            .form = FastmaxForm::factorised,
                            .dropout = 0.25,
                            .dropout_kind = FastmaxDropout::standard,
                            .generator = &rng});
  int64_t dropped = 0;
  for (const double x : o.select(3, 0).to_vector<double>()) dropped += x == 0 ? 1 : 0;
  CHECK(std::abs(static_cast<double>(dropped) / 2000 - 0.25) < 5 * std::sqrt(0.25 * 0.75 / 2000));
  CHECK(max(o).item<double>() == doctest::Approx(1 / 0.75).epsilon(0.2));
}

TEST_CASE("fastmax: the choice of a form depends on the shape alone") {
  const auto chosen = [](int64_t n, int64_t d, bool causal, bool quadratic_term = true) {
    return fastmax_form(Tensor::empty({1, 1, n, d}), Tensor::empty({1, 1, n, d}), quadratic_term, causal);
  };
  for (const int64_t d : {8, 16, 32, 64, 128, 256}) {
    for (const bool causal : {false, true}) {
      CHECK(chosen(16, d, causal) == FastmaxForm::quadratic);
      CHECK(chosen(131072, d, causal) == FastmaxForm::factorised);
      CHECK(chosen(16384, d, causal, false) == FastmaxForm::factorised);
    }
  }
  CHECK(chosen(1024, 128, false) == FastmaxForm::quadratic);
  // Between the measured widths 16 and 32.
  CHECK(chosen(400, 24, false) == FastmaxForm::quadratic);
  CHECK(chosen(600, 24, false) == FastmaxForm::factorised);

  const Tensor flat = zeros({2, 3}), heads = zeros({1, 1, 2, 3});
  CHECK_THROWS_WITH_AS(fastmax_form(heads, flat, true, false, {"a.cpp", 1}),
                       "fastmax_form: k[2, 3] has rank 2; [batch, heads, tokens, width] is needed (a.cpp:1)",
                       ShapeError);
}

TEST_CASE("fastmax: dropout is quadratic unless said otherwise, and standard where there is no quadratic term") {
  const Inputs in = draw(1, 1, 40, 40, 8, DType::float64);
  const auto result = [&](FastmaxOptions options, std::optional<FastmaxDropout> kind) {
    Generator rng(1);
    options.scale = FastmaxScale::unit;
    options.dropout = 0.4;
    options.dropout_kind = kind;
    options.generator = &rng;
    return fastmax(in.q, in.k, in.v, options).to_vector<double>();
  };
  CHECK(result({}, {}) == result({}, FastmaxDropout::quadratic));
  CHECK(result({}, {}) != result({}, FastmaxDropout::standard));
  CHECK(result({.order = 1}, {}) == result({.order = 1}, FastmaxDropout::standard));
  const FastmaxOptions linear{.coefficients = {{1, 0.1, 0}}};
  CHECK(result(linear, {}) == result(linear, FastmaxDropout::standard));
}

TEST_CASE("fastmax refuses dropout that cannot be") {
  const Inputs in = draw(1, 1, 4, 4, 8, DType::float64);
  Generator rng(1);
  const auto refused = [&](const FastmaxOptions& options, const char* because) {
    CHECK_THROWS_WITH_AS(fastmax(in.q, in.k, in.v, options), doctest::Contains(because), ValueError);
  };
  refused({.form = FastmaxForm::quadratic, .dropout = 0.1, .generator = &rng},
          "quadratic dropout needs the features of the factorised form, but the quadratic one is forced");
  refused(
      {.form = FastmaxForm::quadratic, .dropout = 0.1, .dropout_kind = FastmaxDropout::standard, .generator = &rng},
      "standard dropout needs the features");
  const auto no_quadratic_term = "dropout 0.1 of quadratic features does nothing to weights that have none";
  constexpr FastmaxDropout kQuadratic = FastmaxDropout::quadratic;
  refused({.order = 1, .dropout = 0.1, .dropout_kind = kQuadratic, .generator = &rng}, no_quadratic_term);
  refused({.coefficients = {{1, 0.1, 0}},
           .scale = FastmaxScale::unit,
           .dropout = 0.1,
           .dropout_kind = kQuadratic,
           .generator = &rng},
          no_quadratic_term);
  refused({.form = FastmaxForm::reference, .dropout = 0.1, .generator = &rng}, "the reference form has none");
  refused({.dropout = 0.1}, "dropout 0.1 needs a generator; set options.generator");
  refused({.dropout = 1, .generator = &rng}, "dropout is 1; it must be below 1");
  refused({.dropout = -0.1, .generator = &rng}, "dropout is -0.1");
  CHECK_THROWS_AS(fastmax(in.q, in.k, in.v.narrow(3, 0, 4), {.form = FastmaxForm::factorised}), ShapeError);
  CHECK_THROWS_AS(fastmax(in.q, in.k.to(DType::float32), in.v, {.form = FastmaxForm::factorised}), DTypeError);
}
