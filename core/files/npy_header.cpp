#include <linnet/core/files/npy_header.h>

#include <charconv>

#include <fmt/ranges.h>

#include <linnet/core/files/file_dtype.h>
#include <linnet/core/files/utf8.h>

namespace linnet::detail {
namespace {

class NpyHeaderParser {
 public:
  NpyHeaderParser(std::string_view text, int64_t begin, const FileErrors& errors)
      : text_(text), begin_(begin), errors_(errors) {}

  NpyHeader parse() {
    NpyHeader header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      bool& has = key == "descr" ? has_descr : key == "fortran_order" ? has_order : has_shape;
      if (has || (&has == &has_shape && key != "shape")) {
        fail(fmt::format("its header has the key '{}', which is unknown or repeated", shortened(key)));
      }
      has = true;
      expect(':');
      if (&has == &has_descr)
        header.descr = descr();
      else if (&has == &has_order)
        header.fortran_order = boolean();
      else
        header.sizes = sizes();
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (at_ != text_.size()) fail("more text after the header's end");
    if (!has_descr || !has_order || !has_shape) fail("no descr, fortran_order or shape before the header's end");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& found) const {
    errors_.damaged(fmt::format("byte {}: {}", begin_ + static_cast<int64_t>(at_), found));
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  /// If the next character after spaces is `c`, skips it and returns true.
  bool take(char c) {
    skip_spaces();
    const bool is_next = at_ < text_.size() && text_[at_] == c;
    if (is_next) ++at_;
    return is_next;
  }
  void expect(char c) {
    if (!take(c)) fail(fmt::format("no '{}' in its header", c));
  }
  bool take_word(std::string_view word) {
    skip_spaces();
    const bool is_next = text_.substr(at_).starts_with(word);
    if (is_next) at_ += word.size();
    return is_next;
  }
  std::string_view quoted() {
    const char quote = take('"') ? '"' : '\'';
    if (quote == '\'') expect(quote);
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) fail("a string in its header has no end");
    const std::string_view inside = text_.substr(at_, end - at_);
    at_ = end + 1;
    return inside;
  }
  std::string descr() {
    if (take('[')) errors_.refused("its elements are structs; save each field as an array of its own");
    return std::string(quoted());
  }
  bool boolean() {
    const bool is_true = take_word("True");
    if (!is_true && !take_word("False")) fail("fortran_order is neither True nor False");
    return is_true;
  }
  std::vector<int64_t> sizes() {
    std::vector<int64_t> sizes;
    expect('(');
    while (!take(')')) {
      int64_t size = -1;
      skip_spaces();
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) fail("a size of its shape is not a whole number from 0 on");
      at_ = static_cast<size_t>(end - text_.data());
      take('L');  // Python 2 writes 3L
      sizes.push_back(size);
      if (take(',')) continue;
      if (sizes.size() == 1) fail("no ',' in its shape");  // in Python (3) is a number, and (3,) is a tuple
      expect(')');
      break;
    }
    return sizes;
  }

  std::string_view text_;
  int64_t begin_;
  const FileErrors& errors_;
  size_t at_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, int64_t begin, const FileErrors& errors) {
  return NpyHeaderParser(text, begin, errors).parse();
}

std::string npy_header(DType dtype, const Shape& shape) {
  constexpr size_t kBefore = 10, kAlignment = 64;  // NumPy aligns elements in the same way
  const FileDType* type = nullptr;
  for (const FileDType& known : kFileDTypes) {
    if (known.dtype == dtype && known.widen == nullptr) type = &known;
  }
  if (type == nullptr) {
    throw DTypeError(fmt::format("the tensor is {}; convert it with to(DType::float32)", name_of(dtype)));
  }
  std::string text =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}", type->size == 1 ? '|' : '<',
                  type->numpy, fmt::join(shape, ", "), shape.rank() == 1 ? "," : "");
  text.resize((kBefore + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment - kBefore - 1, ' ');
  text += '\n';
  const std::string length{static_cast<char>(text.size() & 255U), static_cast<char>(text.size() >> 8U)};
  return std::string(kNpyMagic) + '\x01' + '\0' + length + text;
}

}  // namespace linnet::detail
