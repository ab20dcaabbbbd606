#include <linnet/nn/data/text.h>

#include <algorithm>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/core/files/read_file.h>
#include <linnet/core/files/utf8.h>
#include <linnet/nn/data/check_index.h>

namespace linnet::nn {

/// The library's sources, in a file that the build generates.
extern const char project_text[];
extern const unsigned long project_text_size;

namespace {

namespace fs = std::filesystem;

constexpr size_t kPage = 256;          // codes in a page of a vocabulary's table
constexpr int32_t kEmptyPage = kPage;  // where its ids begin
constexpr int32_t kNoId = -1;

void check_length(std::span<const int64_t> ids, int64_t context) {
  if (context < 1) throw ValueError(fmt::format("the context must be at least 1, not {}", context));
  if (std::ssize(ids) <= context) {
    throw ValueError(fmt::format("a text of {} character{} is too short for context {}: it must have at least {}",
                                 ids.size(), ids.size() == 1 ? "" : "s", context, context + 1));
  }
}

Batch windows_at(std::span<const int64_t> ids, std::span<const int64_t> starts, int64_t context) {
  const auto batch = static_cast<int64_t>(starts.size());
  Tensor inputs = Tensor::empty({batch, context}, DType::int64);
  Tensor targets = Tensor::empty({batch, context}, DType::int64);
  int64_t* input = inputs.mutable_data<int64_t>().data();
  int64_t* target = targets.mutable_data<int64_t>().data();
  for (const int64_t start : starts) {
    const int64_t* first = ids.data() + start;
    input = std::copy(first, first + context, input);
    target = std::copy(first + 1, first + 1 + context, target);
  }
  return {inputs, targets};
}

std::string not_utf8(std::string_view text, size_t at) {
  return fmt::format("byte 0x{:02x} at offset {} is not UTF-8", static_cast<unsigned char>(text[at]), at);
}

/// The remedy in errors for a file that is not UTF-8.
std::string remedy_for(std::string_view text) {
  const bool is_utf16 = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
  return fmt::format("convert the file{}, or take each byte for a character (--bytes; in C++ Characters::bytes)",
                     is_utf16 ? ", which begins as UTF-16 does (iconv -f UTF-16 -t UTF-8)"
                              : " (such as by iconv -f LATIN1 -t UTF-8)");
}

/// Calls `use(code)` for each character. For code points, it throws ValueError at the first byte that is not UTF-8.
template <class Use>
void for_each_character(std::string_view text, Characters kind, Use&& use) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = kind == Characters::bytes ? 1 : detail::code_point_length(text.substr(at));
    if (length == 0) throw ValueError(not_utf8(text, at));
    use(length == 1 ? char32_t{static_cast<unsigned char>(text[at])} : detail::code_point(text.substr(at, length)));
    at += length;
  }
}

/// A character in a message. Control characters, and bytes beyond ASCII, are shown by their code.
std::string shown(char32_t code, Characters kind) {
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  if (control || (kind == Characters::bytes && code >= 0x80)) {
    return fmt::format("with code {}", static_cast<uint32_t>(code));
  }
  std::string character;
  detail::append_code_point(character, code);
  return fmt::format("'{}'", character);
}

std::vector<fs::path> texts_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    // Hidden files are skipped, such as macOS's ._a.txt, and pipes and devices, which may have no end.
    std::error_code ignored;
    const bool is_text = entry.path().extension() == ".txt" && !entry.path().filename().string().starts_with('.');
    const bool is_other = entry.is_directory(ignored) || entry.is_fifo(ignored) || entry.is_character_file(ignored);
    if (is_text && !is_other) files.push_back(entry.path());
  }
  if (error) throw IoError(fmt::format("cannot read the folder {}: {}", folder.string(), error.message()));
  if (files.empty())
    throw IoError(fmt::format(
        "{} has no text: no name in it ends in .txt; examples/fetch_data.sh gets Tiny Shakespeare", folder.string()));
  std::ranges::sort(files);
  return files;
}

void normalise_newlines(std::string& text) {
  size_t size = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_return = text[i] == '\r', ends_line = is_return && i + 1 < text.size() && text[i + 1] == '\n';
    if (!ends_line) text[size++] = is_return ? '\n' : text[i];
  }
  text.resize(size);
}

int64_t count_characters(std::string_view text, Characters kind) {
  int64_t count = 0;
  for_each_character(text, kind, [&](char32_t) { ++count; });
  return count;
}

}  // namespace

Vocabulary::Vocabulary(std::string_view text, Characters kind) : kind_(kind) {
  std::vector<bool> present;
  for_each_character(text, kind, [&](char32_t code) {
    if (code >= present.size()) present.resize(code + 1);
    present[code] = true;
  });
  pages_.resize((present.size() + kPage - 1) / kPage, kEmptyPage);
  ids_.resize(2 * kPage, kNoId);
  for (size_t code = 0; code < present.size(); ++code) {
    if (!present[code]) continue;
    int32_t& page = pages_[code / kPage];
    if (code < kPage) {
      page = 0;
    } else if (page == kEmptyPage) {
      page = static_cast<int32_t>(ids_.size());
      ids_.resize(ids_.size() + kPage, kNoId);
    }
    ids_[static_cast<size_t>(page) + code % kPage] = static_cast<int32_t>(codes_.size());
    codes_.push_back(static_cast<char32_t>(code));
  }
}

int32_t Vocabulary::id_of(char32_t code) const {
  if (code < kPage) return ids_[code];  // the most usual characters, and all bytes
  const size_t page = code / kPage;
  return page < pages_.size() ? ids_[static_cast<size_t>(pages_[page]) + code % kPage] : kNoId;
}

std::vector<int64_t> Vocabulary::encode(std::string_view text) const {
  std::vector<int64_t> ids;
  ids.reserve(static_cast<size_t>(count_characters(text, kind_)));
  for_each_character(text, kind_, [&](char32_t code) {
    const int32_t id = id_of(code);
    if (id == kNoId) {
      throw ValueError(
          fmt::format("the character {} is not among the {} that the model has seen", shown(code, kind_), size()));
    }
    ids.push_back(id);
  });
  return ids;
}

std::string Vocabulary::decode(std::span<const int64_t> ids) const {
  std::string text;
  for (const int64_t id : ids) {
    if (id < 0 || id >= size()) throw IndexError(fmt::format("id {} is not among the {} characters", id, size()));
    const char32_t code = codes_[static_cast<size_t>(id)];
    if (kind_ == Characters::bytes) {
      text += static_cast<char>(code);
    } else {
      detail::append_code_point(text, code);
    }
  }
  return text;
}

CharText::CharText(std::string_view text, const TextOptions& options)
    : vocabulary_("", options.characters), split_(0) {
  if (text.empty()) throw ValueError("the text is empty");
  std::string normal;
  if (options.normalise_newlines) {
    normal = text;
    normalise_newlines(normal);
    text = normal;
  }
  vocabulary_ = Vocabulary(text, options.characters);
  ids_ = vocabulary_.encode(text);
  split_ = ids_.size() * 9 / 10;
}

CharText CharText::read(const fs::path& path, const TextOptions& options) {
  std::error_code ignored;  // read_file says why a path cannot be read
  const bool is_folder = fs::is_directory(path, ignored);
  if (fs::is_character_file(path, ignored)) throw IoError(fmt::format("{} is a device, not a text", path.string()));
  std::string text;
  int64_t dropped_marks = 0;
  for (const fs::path& file : is_folder ? texts_in(path) : std::vector{path}) {
    std::string content = detail::read_file(file);
    if (options.characters == Characters::code_points) {
      const size_t valid = detail::utf8_bytes(content);
      if (valid < content.size()) {
        throw IoError(fmt::format("{}: {}; {}", file.string(), not_utf8(content, valid), remedy_for(content)));
      }
      if (content.starts_with(detail::kByteOrderMark)) {
        content.erase(0, detail::kByteOrderMark.size());
        ++dropped_marks;
      }
    }
    if (options.normalise_newlines) normalise_newlines(content);
    if (!text.empty() && !text.ends_with('\n') && !content.empty()) text += '\n';
    if (text.empty()) {
      text = std::move(content);  // a single file need not be copied
    } else {
      text += content;
    }
  }
  if (text.empty()) throw IoError(fmt::format("{} is empty", path.string()));
  CharText result(text, {.characters = options.characters});
  result.dropped_marks_ = dropped_marks;
  return result;
}

CharText CharText::of_this_project(const TextOptions& options) {
  return CharText({project_text, project_text_size}, options);
}

Batch random_windows(std::span<const int64_t> ids, int64_t batch, int64_t context, RandomKey key, Where where) {
  const Call call("random_windows", where);
  check_length(ids, context);
  if (batch < 1) throw ValueError(fmt::format("batch must be at least 1, not {}", batch));
  const auto range = static_cast<uint64_t>(std::ssize(ids) - context);
  std::vector<int64_t> starts(static_cast<size_t>(batch));
  for (size_t i = 0; i < starts.size(); ++i) {
    starts[i] = static_cast<int64_t>((random_word(key, i) * range) >> 32);
  }
  return windows_at(ids, starts, context);
}

Windows::Windows(std::span<const int64_t> ids, int64_t context, Where where) : ids_(ids), context_(context) {
  const Call call("Windows", where);
  check_length(ids, context);
}

int64_t Windows::size() const { return (std::ssize(ids_) - 1) / context_; }

Batch Windows::collate(std::span<const int64_t> indices, RandomKey) const {
  std::vector<int64_t> starts;
  for (const int64_t index : indices) {
    detail::check_index(index, size(), "window");
    starts.push_back(index * context_);
  }
  return windows_at(ids_, starts, context_);
}

}  // namespace linnet::nn
