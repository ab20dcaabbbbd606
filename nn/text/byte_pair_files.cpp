#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <linnet/core/error.h>
#include <linnet/core/files/atomic_file.h>
#include <linnet/core/files/read_file.h>
#include <linnet/core/files/utf8.h>
#include <linnet/nn/text/byte_characters.h>
#include <linnet/nn/text/byte_pairs.h>

namespace linnet::nn {

namespace {

namespace fs = std::filesystem;

constexpr const char* kVocabulary = "vocab.json";
constexpr const char* kMerges = "merges.txt";
constexpr std::string_view kVersion = "#version: 0.2";  // the first line of merges.txt
constexpr const char* kBothFiles = "vocab.json and merges.txt must be whole, and of one tokenizer";

[[noreturn]] void fail(const fs::path& path, int64_t line, const std::string& why) {
  throw IoError(fmt::format("{}, line {}: {}; {}", path.string(), line, why, kBothFiles));
}

/// A token's name and id in vocab.json, and their line.
struct Entry {
  std::string name;
  int64_t id, line;
};

/// Parses vocab.json, a JSON object with whole numbers. nlohmann's parser is not used, because errors here name the
/// line.
class VocabularyFile {
 public:
  explicit VocabularyFile(const fs::path& path) : path_(path), text_(detail::read_file(path)), rest_(text_) {}

  std::vector<Entry> entries() {
    std::vector<Entry> entries;
    expect('{');
    if (!skip('}')) {
      do {
        skip_blanks();
        std::string name = string();
        expect(':');
        skip_blanks();
        entries.push_back({std::move(name), number(), line_});
      } while (skip(','));
      expect('}');
    }
    skip_blanks();
    if (!rest_.empty()) fail(path_, line_, "text follows the object of tokens and ids");
    return entries;
  }

 private:
  void skip_blanks() {
    const size_t end = std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size());
    line_ += std::ranges::count(rest_.substr(0, end), '\n');
    rest_.remove_prefix(end);
  }

  bool skip(char mark) {
    skip_blanks();
    if (!rest_.starts_with(mark)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char mark) {
    if (!skip(mark)) fail(path_, line_, fmt::format("{} where '{}' belongs", next(), mark));
  }

  std::string next() const {
    return rest_.empty() ? "the end" : fmt::format("'{}'", detail::shortened(rest_.substr(0, rest_.find('\n'))));
  }

  std::string string() {
    if (!rest_.starts_with('"')) fail(path_, line_, fmt::format("{} where a token in quotes belongs", next()));
    size_t end = rest_.find_first_of("\"\\", 1);
    while (end < rest_.size() && rest_[end] == '\\') end = rest_.find_first_of("\"\\", end + 2);
    if (end >= rest_.size()) fail(path_, line_, "a token has no quote at its end");
    const std::string_view quoted = rest_.substr(0, end + 1);
    rest_.remove_prefix(quoted.size());
    try {
      return nlohmann::json::parse(quoted).get<std::string>();
    } catch (const nlohmann::json::exception&) {
      fail(path_, line_, fmt::format("{} is not a string of JSON", detail::shortened(quoted)));
    }
  }

  int64_t number() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0) fail(path_, line_, fmt::format("{} where an id belongs", next()));
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }

  const fs::path& path_;
  std::string text_;
  std::string_view rest_;
  int64_t line_ = 1;
};

void write(const fs::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text.data(), std::ssize(text));
  file.commit();
}

}  // namespace

/// Reads both files and builds the parts of a tokenizer.
class BytePairTokenizer::Reader {
 public:
  explicit Reader(const fs::path& folder) : vocabulary_(folder / kVocabulary), merges_path_(folder / kMerges) {
    read_vocabulary();
    read_merges();
    for (int32_t id = 0; id < std::ssize(tokens_); ++id) {
      std::string& token = tokens_[static_cast<size_t>(id)];
      if (!token.empty()) continue;  // it is a byte or made by a merge; all others are special tokens
      token = *names_[static_cast<size_t>(id)];
      special_ids_.push_back(id);
    }
  }
  BytePairTokenizer result() { return {std::move(tokens_), byte_ids_, std::move(merges_), std::move(special_ids_)}; }

 private:
  void read_vocabulary() {
    const std::vector<Entry> entries = VocabularyFile(vocabulary_).entries();
    names_.resize(entries.size());
    for (const Entry& entry : entries) {
      const auto& [name, id, line] = entry;
      if (name.empty()) fail(vocabulary_, line, "a token is empty");
      if (id >= std::ssize(entries)) {
        fail(vocabulary_, line,
             fmt::format("the id {} of '{}' is not below the number of tokens, {}", id, detail::shortened(name),
                         entries.size()));
      }
      const std::string*& owner = names_[static_cast<size_t>(id)];
      if (owner != nullptr) {
        fail(vocabulary_, line,
             fmt::format("the id {} of '{}' is also that of '{}'", id, detail::shortened(name),
                         detail::shortened(*owner)));
      }
      const auto [place, is_new] = ids_.emplace(name, static_cast<int32_t>(id));
      if (!is_new) fail(vocabulary_, line, fmt::format("the token '{}' is here twice", detail::shortened(name)));
      owner = &place->first;
    }
    tokens_.resize(entries.size());
    for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
      const std::string token(1, static_cast<char>(byte));
      const auto found = ids_.find(detail::spelled(token));
      if (found == ids_.end()) {
        throw IoError(fmt::format("{} lacks the token '{}' of the byte 0x{:02x}; a byte-level vocabulary has all 256",
                                  vocabulary_.string(), detail::spelled(token), byte));
      }
      byte_ids_[byte] = found->second;
      tokens_[static_cast<size_t>(found->second)] = token;
    }
  }

  void read_merges() {
    const std::string text = detail::read_file(merges_path_);
    if (text.empty()) fail(merges_path_, 1, "the file is empty");  // even without merges it has the version line
    std::unordered_map<uint64_t, int64_t> lines;
    int64_t line = 0;
    for (std::string_view rest = text; !rest.empty();) {
      std::string_view merge = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(merge.size() + 1, rest.size()));
      if (merge.ends_with('\r')) merge.remove_suffix(1);
      if (++line == 1 && merge.starts_with("#version")) continue;
      const size_t blank = merge.find(' ');
      if (blank == 0 || blank >= merge.size() - 1 || merge.find(' ', blank + 1) != merge.npos || merge.empty()) {
        fail(merges_path_, line,
             fmt::format("'{}' is not two tokens with a blank between them", detail::shortened(merge)));
      }
      const std::string_view left = merge.substr(0, blank), right = merge.substr(blank + 1);
      const Merge ids{id_of_part(left, line), id_of_part(right, line), id_of(std::string(left).append(right), line)};
      const auto [first, is_new] = lines.emplace(pair_of(ids.left, ids.right), line);
      if (!is_new)
        fail(merges_path_, line, fmt::format("'{}' is on line {} too", detail::shortened(merge), first->second));
      merges_.push_back(ids);
      tokens_[static_cast<size_t>(ids.result)] =
          tokens_[static_cast<size_t>(ids.left)] + tokens_[static_cast<size_t>(ids.right)];
    }
  }

  int32_t id_of(const std::string& name, int64_t line) const {
    const auto found = ids_.find(name);
    if (found == ids_.end()) {
      fail(merges_path_, line, fmt::format("'{}' is not in {}", detail::shortened(name), kVocabulary));
    }
    return found->second;
  }

  /// The id of a token that is a part of a merge.
  int32_t id_of_part(std::string_view name, int64_t line) const {
    const int32_t id = id_of(std::string(name), line);
    if (tokens_[static_cast<size_t>(id)].empty()) {
      fail(merges_path_, line,
           fmt::format("'{}' is neither a byte nor made by an earlier line", detail::shortened(name)));
    }
    return id;
  }

  fs::path vocabulary_, merges_path_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<const std::string*> names_;  // the name of each id, as in vocab.json
  std::vector<std::string> tokens_;        // the bytes of each id, empty for special tokens until the end
  std::array<int32_t, 256> byte_ids_{};
  std::vector<Merge> merges_;
  std::vector<int32_t> special_ids_;
};

BytePairTokenizer BytePairTokenizer::load(const fs::path& folder, Where where) {
  const Call call("BytePairTokenizer::load", where);
  return Reader(folder).result();
}

void BytePairTokenizer::save(const fs::path& folder, Where where) const {
  const Call call("BytePairTokenizer::save", where);
  std::string vocabulary, merges = fmt::format("{}\n", kVersion);
  for (int32_t id = 0; id < size(); ++id) {
    const std::string& token = tokens_[static_cast<size_t>(id)];
    const bool is_special = std::ranges::binary_search(special_ids_, id);
    vocabulary += fmt::format("{}{}:{}", id == 0 ? "{" : ",",
                              nlohmann::json(is_special ? token : detail::spelled(token)).dump(), id);
  }
  for (const Merge& merge : merges_) {
    merges += fmt::format("{} {}\n", detail::spelled(tokens_[static_cast<size_t>(merge.left)]),
                          detail::spelled(tokens_[static_cast<size_t>(merge.right)]));
  }
  write(folder / kVocabulary, vocabulary + "}");
  write(folder / kMerges, merges);
}

}  // namespace linnet::nn
