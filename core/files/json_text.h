#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace linnet::detail {

/// What is wrong with a JSON text, and at which byte.
struct JsonError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Goes through a JSON text (RFC 8259) from its front to its end. Texts from files may be anybody's: objects and
/// lists lie at most kMaxDepth deep within each other, and no memory is taken but for the strings that are asked for.
/// Every function passes over what it is named after, and throws JsonError where the text has something else. The
/// text must outlive it.
class JsonText {
 public:
  static constexpr int kMaxDepth = 32;
  /// The most bytes that files of settings have, of which a tree is made.
  static constexpr int64_t kMaxSettings = int64_t{1} << 16;

  explicit JsonText(std::string_view text);

  /// The character that the next value begins with: {, [, ", or that of a number, true, false or null. 0 at the end.
  char peek();
  /// `member(name)` may take the name, a std::string&, and must pass over the member's value.
  template <class Member>
  void object(Member&& member) {
    open('{');
    if (closes('}')) return;
    do {
      std::string name = string();
      expect(':');
      member(name);
    } while (takes(','));
    close('}');
  }
  /// `element()` must pass over the element.
  template <class Element>
  void list(Element&& element) {
    open('[');
    if (closes(']')) return;
    do {
      element();
    } while (takes(','));
    close(']');
  }
  /// What it stands for, as UTF-8.
  std::string string();
  /// Any value; gives its text.
  std::string_view value();
  void end();

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void space();
  bool takes(char c);
  void expect(char c);
  void open(char bracket);
  bool closes(char bracket);
  void close(char bracket);
  template <class Use>
  void characters(Use&& use);
  char32_t escape();
  char32_t hexadecimal();
  void literal(std::string_view word);
  void number();
  void digits();

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace linnet::detail
