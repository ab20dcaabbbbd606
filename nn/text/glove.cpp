#include <linnet/nn/text/glove.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/core/files/read_file.h>
#include <linnet/core/files/utf8.h>
#include <linnet/nn/data/from_chars.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet::nn {
namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr int64_t kMostNumbers = 1024;  // a limit, since the covariance has the square of this
constexpr double kRidge = 1e-6;
constexpr double kLargest = 1e18;  // with larger numbers the vectors drawn for other words could overflow float32

void drop_blanks_at_end(std::string_view& text) {
  text.remove_suffix(text.size() - 1 - text.find_last_not_of(kBlanks));
}

/// Removes the last field of the line, and returns it.
std::string_view take_last(std::string_view& line) {
  const size_t blank = line.find_last_of(kBlanks);
  const std::string_view field = line.substr(blank == std::string_view::npos ? 0 : blank + 1);
  line.remove_suffix(field.size());
  drop_blanks_at_end(line);
  return field;
}

/// The field as a number; none unless the whole field is one.
template <class Number>
std::optional<Number> number_in(std::string_view field) {
  Number value = 0;
  const auto [end, error] = detail::from_chars(field, value);
  const bool is_number = error == std::errc() && end == field.data() + field.size();
  return is_number ? std::optional(value) : std::nullopt;
}

/// A file of vectors, line by line.
class VectorFile {
 public:
  explicit VectorFile(const std::filesystem::path& path) : path_(path), file_(detail::open_to_read(path_)) {
    if (next_line() && is_header()) next_line();
    std::string_view rest = line_;
    for (width_ = -1; !rest.empty(); ++width_) take_last(rest);
    if (width_ < 1 || width_ > kMostNumbers) {
      fail(fmt::format("{} numbers after a word; 1 to {} are expected", std::max<int64_t>(width_, 0), kMostNumbers));
    }
  }

  int64_t width() const { return width_; }

  /// Calls `use(word, numbers)` for every line.
  template <class Use>
  void for_each_line(const Use& use) {
    std::vector<float> numbers(static_cast<size_t>(width_));
    do {
      std::string_view word = line_;
      for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) *number = take_number(word);
      if (word.empty()) fail(fmt::format("no word before the numbers; {}", expected()));
      std::string_view rest = word;
      const std::string_view last = take_last(rest);
      if (!rest.empty() && number_in<double>(last)) fail(fmt::format("more numbers; {}", expected()));
      use(word, numbers);
    } while (next_line());
  }

 private:
  bool next_line() {
    ++number_;
    errno = 0;
    const bool is_read = static_cast<bool>(std::getline(file_, text_));
    if (file_.bad()) detail::cannot_read(path_);
    line_ = is_read ? text_ : std::string_view();
    drop_blanks_at_end(line_);
    return is_read;
  }

  /// Whether the line is word2vec's first line: the number of words and D.
  bool is_header() const {
    std::string_view rest = line_;
    const auto width = number_in<uint64_t>(take_last(rest));
    return width && number_in<uint64_t>(rest);
  }

  float take_number(std::string_view& line) const {
    if (line.find_last_of(kBlanks) == std::string_view::npos) fail(fmt::format("too few numbers; {}", expected()));
    const std::string_view field = take_last(line);
    const std::optional<double> value = number_in<double>(field);
    if (value && std::abs(*value) <= kLargest) return static_cast<float>(*value);
    fail(fmt::format("'{}' is no number from -1e18 to 1e18; {}", detail::shortened(field), expected()));
  }

  std::string expected() const {
    return fmt::format("a word and {} numbers are expected, as in the first line", width_);
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw IoError(fmt::format("{}, line {}: {}", path_.string(), number_, why));
  }

  const std::filesystem::path& path_;
  std::ifstream file_;
  std::string text_;
  std::string_view line_;
  int64_t number_ = 0, width_ = 0;
};

/// Replaces a symmetric float64 matrix A without negative eigenvalues by the factor L of A + r·I = L·Lᵀ, in place.
/// The ridge r is kRidge, or more if A has large numbers, because their rounding could make a pivot negative.
///
/// Source: Cholesky's algorithm, row by row (Golub & Van Loan 2013, section 4.2).
void factorise(Tensor& a) {
  const int64_t size = a.size(0);
  double* const rows = a.mutable_data<double>().data();
  double ridge = kRidge;
  for (int64_t i = 0; i < size; ++i) ridge = std::max(ridge, 1e-12 * static_cast<double>(size) * rows[i * size + i]);
  for (int64_t i = 0; i < size; ++i) {
    double* const row = rows + i * size;
    for (int64_t j = 0; j <= i; ++j) {
      const double* const other = rows + j * size;
      double rest = row[j] + (i == j ? ridge : 0);
      for (int64_t k = 0; k < j; ++k) rest -= row[k] * other[k];
      row[j] = i == j ? std::sqrt(std::max(rest, ridge)) : rest / other[j];
    }
    std::fill(row + i + 1, row + size, 0);
  }
}

/// `count` vectors from the normal distribution with the mean and the covariance of the rows of `known` [n, D].
Tensor drawn_like(const Tensor& known, int64_t count, Generator& rng) {
  const int64_t n = known.size(0), width = known.size(1);
  const double degrees = std::max<double>(static_cast<double>(n) - 1, 1);
  const Tensor all = known.to(DType::float64), mean = all.mean({0}), scaled = (all - mean) / std::sqrt(degrees);
  if (n < width) {  // a random sum of the rows has their covariance too, and needs no factor, which takes time D³
    const Tensor normal = randn({count, n + width}, rng, DType::float64);
    const Tensor ridge = normal.narrow(1, n, width) * std::sqrt(kRidge);
    return (matmul(normal.narrow(1, 0, n), scaled) + ridge + mean).to(DType::float32);
  }
  Tensor factor = matmul(scaled.transpose(0, 1), scaled);
  factorise(factor);
  const Tensor normal = randn({count, width}, rng, DType::float64);
  return (matmul(normal, factor.transpose(0, 1)) + mean).to(DType::float32);
}

}  // namespace

WordVectors read_glove(const std::filesystem::path& path, const WordVocabulary& vocabulary, Generator& rng,
                       Where where) {
  const Call call("read_glove", where);
  const NoGrad no_grad;
  VectorFile file(path);
  std::vector<float> numbers;
  std::vector<int64_t> ids;
  std::vector<bool> has(static_cast<size_t>(vocabulary.size()), false);
  WordVectors result;
  file.for_each_line([&](std::string_view word, const std::vector<float>& vector) {
    const int64_t id = vocabulary.id(word);
    if (id == WordVocabulary::kUnknown) return;
    if (has[static_cast<size_t>(id)]) {
      ++result.repeated;
      return;
    }
    has[static_cast<size_t>(id)] = true;
    ids.push_back(id);
    numbers.insert(numbers.end(), vector.begin(), vector.end());
  });
  if (ids.empty()) {
    throw IoError(fmt::format("{} has none of the {} words of the vocabulary; choose vectors of the texts' language",
                              path.string(), vocabulary.size()));
  }
  result.found = std::ssize(ids);
  const Tensor known = tensor(numbers, {result.found, file.width()});
  result.vectors = drawn_like(known, vocabulary.size(), rng);
  result.vectors = index_put(result.vectors, {tensor(ids)}, known);
  result.vectors.select(0, WordVocabulary::kPadding).fill_(0);
  return result;
}

}  // namespace linnet::nn
