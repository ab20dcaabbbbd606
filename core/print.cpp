#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <ostream>
#include <type_traits>

#include <fmt/format.h>

#include <linnet/core/device/kernel_access.h>
#include <linnet/core/tensor.h>

/// Prints tensors like NumPy. First the elements that are shown become strings of the same width (words), then the
/// words are put into brackets.

namespace linnet {
namespace {

constexpr int64_t kThreshold = 1000;  // more elements than this are summarised
constexpr int64_t kEdge = 3;          // entries shown at each end of a summarised dimension
constexpr int kPrecision = 8;         // digits after the point, at most
constexpr size_t kLineWidth = 75;

/// Calls `entry(i)` for each index that is shown, and `dots()` once in place of those that are not.
template <class Entry, class Dots>
void for_each_entry(int64_t size, bool summarised, Entry&& entry, Dots&& dots) {
  const bool cut = summarised && size > 2 * kEdge;
  for (int64_t i = 0; i < size; ++i) {
    if (cut && i == kEdge) {
      dots();
      i = size - kEdge;
    }
    entry(i);
  }
}

// ---- Words ----

/// A finite number split at its point and exponent, such as `12.5` or `1.25e-05`.
struct Digits {
  std::string whole, fraction, exponent;
};

Digits parts_of(const std::string& text) {
  const size_t e = std::min(text.find('e'), text.size());
  const size_t point = std::min(text.find('.'), e);
  const size_t fraction = std::min(point + 1, e);
  return {text.substr(0, point), text.substr(fraction, e - fraction), text.substr(e)};
}

template <class T, class... Precision>
Digits digits_in(std::chars_format format, T value, Precision... precision) {
  char text[64];
  return parts_of({text, std::to_chars(text, std::end(text), value, format, precision...).ptr});
}

/// The shortest digits that read back as `value`, rounded to kPrecision digits after the point.
template <class T>
Digits short_digits(std::chars_format format, T value) {
  Digits digits = digits_in(format, value);
  if (digits.fraction.size() <= kPrecision) return digits;
  digits = digits_in(format, value, kPrecision);
  digits.fraction.erase(digits.fraction.find_last_not_of('0') + 1);
  return digits;
}

/// Numbers of at least this magnitude are printed with exponents. (A float has six certain digits.)
template <class T>
constexpr T kLarge = std::is_same_v<T, float> ? T(1e6) : T(1e8);

template <class T>
std::chars_format format_for(const std::vector<T>& values) {
  T largest = 0;
  T smallest = std::numeric_limits<T>::infinity();
  for (const T value : values) {
    const T magnitude = std::abs(value);
    if (!std::isfinite(value) || magnitude == 0) continue;
    largest = std::max(largest, magnitude);
    smallest = std::min(smallest, magnitude);
  }
  const bool scientific = largest >= kLarge<T> || smallest < T(1e-4) || (largest > 0 && largest / smallest > T(1e3));
  return scientific ? std::chars_format::scientific : std::chars_format::fixed;
}

template <class T>
std::string non_finite(T value) {
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

/// Numbers aligned at their decimal points: fixed notation is padded with spaces, and scientific notation has the
/// same number of digits in each number.
template <class T>
std::vector<std::string> words_of(const std::vector<T>& values)
  requires std::is_floating_point_v<T>
{
  const std::chars_format format = format_for(values);
  std::vector<Digits> all(values.size());
  Digits widest;
  const auto widen = [](std::string& to, const std::string& from) { to.resize(std::max(to.size(), from.size())); };
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    all[i] = short_digits(format, values[i]);
    widen(widest.whole, all[i].whole);
    widen(widest.fraction, all[i].fraction);
    widen(widest.exponent, all[i].exponent);
  }
  std::vector<std::string> words;
  for (size_t i = 0; i < values.size(); ++i) {
    auto& [whole, fraction, exponent] = all[i];
    if (!std::isfinite(values[i])) {
      words.push_back(non_finite(values[i]));
      continue;
    }
    if (format == std::chars_format::scientific) {
      fraction = digits_in(format, values[i], static_cast<int>(widest.fraction.size())).fraction;
      exponent.insert(2, widest.exponent.size() - exponent.size(), '0');  // after `e+`
    }
    words.push_back(
        fmt::format("{:>{}}.{:<{}}{}", whole, widest.whole.size(), fraction, widest.fraction.size(), exponent));
  }
  return words;
}

template <class T>
std::vector<std::string> words_of(const std::vector<T>& values)
  requires std::is_integral_v<T>
{
  std::vector<std::string> words;
  for (const T value : values) {
    if constexpr (std::is_same_v<T, bool>)
      words.emplace_back(value ? " True" : "False");
    else
      words.push_back(std::to_string(value));
  }
  return words;
}

/// The number of a tensor of rank 0: all its digits, without alignment.
template <class T>
std::string number(T value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "True" : "False";
  else if constexpr (std::is_integral_v<T>)
    return std::to_string(value);
  else {
    if (!std::isfinite(value)) return non_finite(value);
    const double magnitude = std::abs(static_cast<double>(value));
    const double large = std::is_same_v<T, float> ? 1e6 : 1e16;
    const bool fixed = magnitude == 0 || (magnitude >= 1e-4 && magnitude < large);
    const auto format = fixed ? std::chars_format::fixed : std::chars_format::scientific;
    const Digits digits = digits_in(format, value);
    if (fixed) return digits.whole + '.' + (digits.fraction.empty() ? "0" : digits.fraction);
    return digits.whole + (digits.fraction.empty() ? "" : "." + digits.fraction) + digits.exponent;
  }
}

// ---- Layout ----

class Layout {
 public:
  Layout(const Shape& shape, bool summarised, std::vector<std::string> words)
      : shape_(shape), summarised_(summarised), words_(std::move(words)) {
    size_t width = 0;
    for (const std::string& word : words_) width = std::max(width, word.size());
    for (std::string& word : words_) word.insert(0, width - word.size(), ' ');
  }

  std::string text() { return dim_ + 1 == shape_.rank() ? row() : rows(); }

 private:
  /// Writes the last dim: words separated by spaces, wrapped when a line is full.
  std::string row() {
    const std::string indent = indentation();
    const size_t room = kLineWidth - std::min(kLineWidth, indent.size());
    std::string text;
    std::string line = indent;
    const auto append = [&](const std::string& word) {
      if (line.size() > indent.size() && line.size() + word.size() > room) {
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + '\n';
        line = indent;
      }
      line += word + ' ';
    };
    for_each_entry(shape_[dim_], summarised_, [&](int64_t) { append(words_[next_++]); }, [&] { append("..."); });
    line.pop_back();
    return bracketed(text + line);
  }

  /// Writes any other dim: its entries one below the other, separated by one more blank line for each further dim.
  std::string rows() {
    const std::string indent = indentation();
    const std::string gap(static_cast<size_t>(shape_.rank() - dim_ - 1), '\n');
    std::string text;
    const auto append = [&](const std::string& nested) { text += (text.empty() ? "" : gap) + indent + nested; };
    for_each_entry(
        shape_[dim_], summarised_,
        [&](int64_t) {
          ++dim_;
          const std::string nested = this->text();
          --dim_;
          append(nested);
        },
        [&] { append("..."); });
    return bracketed(text);
  }

  std::string indentation() const { return std::string(static_cast<size_t>(dim_ + 1), ' '); }
  /// Replaces the first line's indentation by the opening bracket.
  std::string bracketed(const std::string& text) const {
    return '[' + text.substr(static_cast<size_t>(dim_) + 1) + ']';
  }

  const Shape& shape_;
  bool summarised_;
  std::vector<std::string> words_;
  size_t next_ = 0;
  int dim_ = 0;
};

template <class T>
void collect(const View& x, int dim, const T* from, bool summarised, std::vector<T>& values) {
  if (dim == x.rank) return values.push_back(*from);
  for_each_entry(
      x.shape[dim], summarised,
      [&](int64_t i) { collect(x, dim + 1, from + i * x.strides[dim], summarised, values); }, [] {});
}

template <class T>
std::string text_of(const Tensor& tensor) {
  const View x = detail::view(tensor);
  if (x.rank == 0) return number(*static_cast<const T*>(x.data));
  if (tensor.numel() == 0) return "[]";
  const bool summarised = tensor.numel() > kThreshold;
  std::vector<T> shown;
  collect(x, 0, static_cast<const T*>(x.data), summarised, shown);
  return Layout(tensor.shape(), summarised, words_of(shown)).text();
}

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined tensor";
  const Tensor values = tensor.detach().to(computed_in(tensor.dtype())).to(Device::cpu);
  switch (values.dtype()) {
    case DType::float32: return text_of<float>(values);
    case DType::float64: return text_of<double>(values);
    case DType::int32: return text_of<int32_t>(values);
    case DType::int64: return text_of<int64_t>(values);
    case DType::boolean: return text_of<bool>(values);
    case DType::bfloat16: break;
  }
  return "";
}

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) { return stream << to_string(tensor); }

}  // namespace linnet
