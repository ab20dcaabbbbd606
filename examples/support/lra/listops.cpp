#include "support/lra/listops.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "support/draws.h"
#include "support/lra/public_set.h"
#include "support/lra/tsv.h"
#include "support/settings/program.h"

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 10;
constexpr uint32_t kMinArguments = 2, kMaxArguments = 10;
constexpr uint8_t kDigit = 1, kOperator = 11, kEnd = 15;  // the first digit, the first operator, the bracket
constexpr std::array<std::string_view, kListOpsIds> kWords{"",  "0", "1", "2",    "3",    "4",    "5",   "6",
                                                           "7", "8", "9", "[MIN", "[MAX", "[MED", "[SM", "]"};
constexpr int64_t kVersion = 1;  // of the generator
constexpr std::array<int64_t, 3> kCounts{96000, 2000, 2000};
constexpr int64_t kPublishedLeast = 501, kPublishedMost = 1999;

/// The value of an operator. It sorts the arguments.
uint8_t value_of_operator(uint8_t op, std::span<uint8_t> arguments) {
  std::ranges::sort(arguments);
  const size_t count = arguments.size();
  switch (op - kOperator) {
    case 0: return arguments.front();
    case 1: return arguments.back();
    case 2: return static_cast<uint8_t>((arguments[(count - 1) / 2] + arguments[count / 2]) / 2);
    default: return static_cast<uint8_t>(std::accumulate(arguments.begin(), arguments.end(), 0) % 10);
  }
}

/// Writes a random expression, token by token.
class RandomTree {
 public:
  RandomTree(RandomKey key, int64_t most) : draws_(key), most_(most) {}

  /// The value of a random node at this depth; any value once the tree is too long.
  uint8_t node(int depth) {
    if (depth == kMaxDepth || draws_.below(4) != 0) {
      const auto digit = static_cast<uint8_t>(draws_.below(10));
      add(kDigit + digit);
      return digit;
    }
    const auto op = static_cast<uint8_t>(kOperator + draws_.below(kEnd - kOperator));
    const auto count = static_cast<size_t>(kMinArguments + draws_.below(kMaxArguments - kMinArguments + 1));
    add(op);
    std::array<uint8_t, kMaxArguments> arguments;
    for (size_t i = 0; i < count && !is_too_long(); ++i) arguments[i] = node(depth + 1);
    add(kEnd);
    return is_too_long() ? 0 : value_of_operator(op, std::span(arguments).first(count));
  }

  bool is_too_long() const { return std::ssize(tokens_) > most_; }
  std::vector<uint8_t> take_tokens() { return std::move(tokens_); }

 private:
  void add(int token) { tokens_.push_back(static_cast<uint8_t>(token)); }

  Draws draws_;
  int64_t most_;
  std::vector<uint8_t> tokens_;
};

template <class Use>
void for_each_word(std::string_view text, const Use& use) {
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    if (!word.empty()) use(word);
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
}

/// One of the published files.
LabelledSequences read_listops(const fs::path& path, int64_t most) {
  TsvReader file(path, {"Source", "Target"});
  file.skip_header();
  ByteSequences sequences;
  std::vector<uint8_t> labels;
  std::vector<uint8_t> tokens;
  while (file.next()) {
    tokens.clear();
    for_each_word(file.cell(0), [&](std::string_view word) {
      if (word == "(" || word == ")") return;
      const auto found = std::ranges::find(kWords, word);
      if (found == kWords.end())
        file.refuse("the word", word, "a digit, [MIN, [MAX, [MED, [SM, ], ( or ) is expected");
      tokens.push_back(static_cast<uint8_t>(found - kWords.begin()));
    });
    const std::string_view label = file.cell(1);
    if (label.size() != 1 || label[0] < '0' || label[0] > '9') {
      file.refuse("the Target", label, "a digit is expected");
    }
    const std::optional<uint8_t> value = value_of_listops(tokens);
    if (!value) file.refuse("the Source", file.cell(0), "it is not one whole expression");
    if (*value != label[0] - '0') {
      file.refuse("the Target", label, fmt::format("the value of the Source is {}", *value));
    }
    if (std::ssize(tokens) > most) {
      file.refuse("the Source", file.cell(0),
                  fmt::format("it has {} tokens, where at most {} are expected", tokens.size(), most));
    }
    sequences.append(tokens);
    labels.push_back(*value);
  }
  return {std::move(sequences), std::move(labels), {}, Ids::zero_is_padding};
}

}  // namespace

std::optional<ListOps> random_listops(RandomKey key, int64_t most) {
  RandomTree tree(key, most);
  const uint8_t value = tree.node(1);
  if (tree.is_too_long()) return std::nullopt;
  return ListOps{tree.take_tokens(), value};
}

std::optional<uint8_t> value_of_listops(std::span<const uint8_t> tokens) {
  struct Open {
    uint8_t op;
    std::vector<uint8_t> arguments;
  };
  std::vector<Open> open{{0, {}}};  // the outermost holds the value
  for (const uint8_t token : tokens) {
    if (token >= kOperator && token < kEnd) {
      open.push_back({token, {}});
    } else if (token >= kDigit && token < kOperator) {
      open.back().arguments.push_back(token - kDigit);
    } else {
      if (token != kEnd || open.size() == 1 || open.back().arguments.empty()) return std::nullopt;
      const uint8_t value = value_of_operator(open.back().op, open.back().arguments);
      open.pop_back();
      open.back().arguments.push_back(value);
    }
  }
  if (open.size() != 1 || open[0].arguments.size() != 1) return std::nullopt;
  return open[0].arguments[0];
}

Examples generate_listops(uint64_t seed, int64_t least, int64_t most, int64_t count, const ReportMade& report) {
  constexpr int64_t kTrees = 64, kTasks = 256;  // of a task, and between two reports
  constexpr int64_t kVain = int64_t{1} << 20;   // the most trees in a row without a new expression
  Examples made;
  made.sequences.shape = {count, most};
  made.sequences.bytes.resize(static_cast<size_t>(count * most));
  std::unordered_set<std::string_view> rows;  // of `made`
  int64_t last_new = 0;
  for (int64_t begin = 0; std::ssize(made.labels) < count; begin += kTrees * kTasks) {
    report(std::ssize(made.labels));
    if (begin - last_new > kVain) {
      throw UsageError(
          fmt::format("--min-tokens {} --context {}: only {} different expressions of these lengths turned up; allow "
                      "more lengths",
                      least, most, made.labels.size()));
    }
    std::array<std::vector<ListOps>, kTasks> kept;
    parallel_tasks(kTasks, [&](int64_t task) {
      for (int64_t i = begin + task * kTrees; i < begin + (task + 1) * kTrees; ++i) {
        std::optional<ListOps> tree = random_listops({seed, static_cast<uint64_t>(i)}, most);
        if (tree && std::ssize(tree->tokens) >= least) kept[static_cast<size_t>(task)].push_back(std::move(*tree));
      }
    });
    for (const std::vector<ListOps>& trees : kept) {
      for (const ListOps& tree : trees) {
        if (std::ssize(made.labels) == count) break;
        uint8_t* row = made.sequences.bytes.data() + std::ssize(made.labels) * most;
        std::fill(std::ranges::copy(tree.tokens, row).out, row + most, uint8_t{0});
        if (!rows.emplace(reinterpret_cast<const char*>(row), static_cast<size_t>(most)).second) continue;
        made.labels.push_back(tree.value);
        last_new = begin;
      }
    }
  }
  report(count);
  return made;
}

SequenceData load_listops(const Settings& settings) {
  const int64_t least = settings.lra.min_tokens, most = settings.context;
  constexpr int64_t kMost = 20000;  // for an IDX file of 2 GiB
  if (least < 1 || least > most || most > kMost) {
    throw UsageError(
        fmt::format("--min-tokens {} --context {}: the shortest expression has at least 1 token, and the "
                    "longest from --min-tokens to {}",
                    least, most, kMost));
  }
  if (least == kPublishedLeast && most == kPublishedMost) {
    if (const auto found = find_data(settings, "listops", "basic_train.tsv")) {
      refuse_data_seed(settings, *found);
      const auto read = [&](const std::string& part) {
        return read_listops(found->path / fmt::format("basic_{}.tsv", part), most);
      };
      return named_by_content(found->name,
                              {.name = {}, .train = read("train"), .dev = read("val"), .test = read("test")});
    }
  }
  const GeneratedSet set{.generator = "listops",
                         .version = kVersion,
                         .seed = settings.lra.data_seed,
                         .options = {{"min_tokens", least}, {"max_tokens", most}},
                         .counts = kCounts};
  const auto parts = cached(settings, set, [&](const ReportMade& report) {
    return generate_listops(set.seed, least, most, kCounts[0] + kCounts[1] + kCounts[2], report);
  });
  const auto sequences = [](const Examples& part) { return to_sequences(part, Ends::zeros, Ids::zero_is_padding); };
  return {name_of(set), sequences(parts[0]), sequences(parts[1]), sequences(parts[2])};
}

}  // namespace linnet::examples
