/// ListOps: the generator's statistics, the values, and the published files' format.

#include "support/lra/listops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "support/settings/program.h"
#include "tests/support/files.h"
#include "tests/support/threads.h"

using namespace linnet;
using namespace linnet::examples;
using linnet::test::read_bytes;
using linnet::test::TemporaryFolder;
using linnet::test::WithThreads;
using linnet::test::write_bytes;

namespace {

const std::array<std::string, 16> kWords{"",  "0", "1", "2",    "3",    "4",    "5",   "6",
                                         "7", "8", "9", "[MIN", "[MAX", "[MED", "[SM", "]"};

/// The expression that begins at `from`, in the published files' form: `( ( ( [MED 2 ) 5 ) ] )`.
std::string as_text(const std::vector<uint8_t>& tokens, size_t& from) {
  const std::string word = kWords[tokens[from++]];
  if (word[0] != '[') return word;
  std::string text = word;
  for (bool is_end = false; !is_end;) {
    is_end = tokens[from] == 15;
    text = "( " + text + " " + (is_end ? kWords[tokens[from++]] : as_text(tokens, from)) + " )";
  }
  return text;
}
std::string as_text(const std::vector<uint8_t>& tokens) {
  size_t from = 0;
  return as_text(tokens, from);
}

/// The value of such a text, computed as in lra_benchmarks/data/listops.py: by pairs, whose left part is an operator
/// with its arguments so far.
struct Partial {
  std::string op;
  std::vector<int> arguments;
};
using Value = std::variant<int, std::string, Partial>;

Value value_of_pair(std::istringstream& text) {
  std::string word;
  text >> word;
  if (word != "(") return word[0] >= '0' && word[0] <= '9' ? Value(std::stoi(word)) : Value(word);
  const Value left = value_of_pair(text), right = value_of_pair(text);
  text >> word;
  REQUIRE(word == ")");
  if (const auto* op = std::get_if<std::string>(&left)) return Partial{*op, {std::get<int>(right)}};
  Partial partial = std::get<Partial>(left);
  if (const int* argument = std::get_if<int>(&right)) {
    partial.arguments.push_back(*argument);
    return partial;
  }
  REQUIRE(std::get<std::string>(right) == "]");
  std::vector<int> sorted = partial.arguments;
  std::sort(sorted.begin(), sorted.end());
  const size_t count = sorted.size();
  if (partial.op == "[MIN") return sorted.front();
  if (partial.op == "[MAX") return sorted.back();
  if (partial.op == "[MED") {
    const double median = count % 2 == 1 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0;
    return static_cast<int>(median);
  }
  int sum = 0;
  for (const int argument : sorted) sum += argument;
  return sum % 10;
}

/// The tokens of a text with spaces between words, without ( and ).
std::vector<uint8_t> tokens_of(const std::string& text) {
  std::vector<uint8_t> tokens;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == "(" || word == ")") continue;
    tokens.push_back(static_cast<uint8_t>(std::find(kWords.begin(), kWords.end(), word) - kWords.begin()));
  }
  return tokens;
}

Settings listops_in(const std::filesystem::path& data) {
  Settings settings;
  settings.task = "listops";
  settings.context = 1999;
  settings.data = data;
  return settings;
}

/// Writes the three published files, all with these lines.
void write_published(const std::filesystem::path& folder, const std::string& lines) {
  std::filesystem::create_directories(folder);
  for (const char* part : {"train", "val", "test"}) {
    write_bytes(folder / (std::string("basic_") + part + ".tsv"), "Source\tTarget\r\n" + lines);
  }
}

/// The reader's error for files with one line that it must refuse.
std::string refusal(const std::string& line) {
  const TemporaryFolder folder;
  write_published(folder / "listops", "( ( ( [MED 2 ) 5 ) ] )\t3\r\n" + line);
  try {
    load_listops(listops_in(folder.path()));
  } catch (const IoError& error) {
    return error.what();
  }
  return "accepted";
}

bool has_part(const std::string& text, const std::string& part) {
  INFO(text);
  const bool is_there = text.find(part) != std::string::npos;
  CHECK(is_there);
  return is_there;
}

}  // namespace

TEST_CASE("listops: values of expressions") {
  CHECK(value_of_listops(tokens_of("7")) == 7);
  CHECK(value_of_listops(tokens_of("[MIN 4 2 9 ]")) == 2);
  CHECK(value_of_listops(tokens_of("[MAX 4 2 9 ]")) == 9);
  CHECK(value_of_listops(tokens_of("[SM 4 2 9 ]")) == 5);
  CHECK(value_of_listops(tokens_of("[MED 4 2 9 ]")) == 4);
  CHECK(value_of_listops(tokens_of("[MED 4 2 9 7 ]")) == 5);  // 5.5
  CHECK(value_of_listops(tokens_of("[MAX 2 [MED 7 1 4 ] [SM 5 5 ] ]")) == 4);
  for (const char* part : {"", "7 7", "[MIN 4 2", "[MIN ]", "]", "[MIN 4 2 ] ]", "4 ]"}) {
    CAPTURE(part);
    CHECK_FALSE(value_of_listops(tokens_of(part)).has_value());
  }
  CHECK_FALSE(value_of_listops(std::vector<uint8_t>{0}).has_value());
  CHECK_FALSE(value_of_listops(std::vector<uint8_t>{16}).has_value());
}

TEST_CASE("listops: the generator's statistics, and values that an evaluator of the text confirms") {
  constexpr int64_t kTrees = 434'000, kRange = 1000;
  struct Range {
    std::vector<int64_t> lengths, answers;
    int64_t too_long = 0, wrong = 0, deepest = 0;
  };
  std::vector<Range> ranges(kTrees / kRange);
  parallel_for(kTrees, kRange, [&](int64_t begin, int64_t end) {
    Range& range = ranges[static_cast<size_t>(begin / kRange)];
    for (int64_t i = begin; i < end; ++i) {
      const auto tree = random_listops({1, static_cast<uint64_t>(i)}, 1999);
      range.too_long += !tree;
      if (!tree || tree->tokens.size() < 501) continue;
      range.lengths.push_back(std::ssize(tree->tokens));
      range.answers.push_back(tree->value);
      range.wrong += value_of_listops(tree->tokens) != tree->value;
      int64_t depth = 1;
      for (const uint8_t token : tree->tokens) {
        depth += token == 15 ? -1 : token > 10 ? 1 : 0;
        range.deepest = std::max(range.deepest, depth);
      }
    }
  });
  Range all;
  for (const Range& range : ranges) {
    all.lengths.insert(all.lengths.end(), range.lengths.begin(), range.lengths.end());
    all.answers.insert(all.answers.end(), range.answers.begin(), range.answers.end());
    all.too_long += range.too_long;
    all.wrong += range.wrong;
    all.deepest = std::max(all.deepest, range.deepest);
  }
  std::sort(all.lengths.begin(), all.lengths.end());
  const auto kept = static_cast<double>(all.lengths.size());
  double sum = 0;
  for (const int64_t length : all.lengths) sum += static_cast<double>(length);
  const auto quartile = [&](size_t i) { return static_cast<double>(all.lengths[all.lengths.size() * i / 4]); };
  const auto near = [](double value, double expected, double tolerance) {
    INFO(value, " is not within ", tolerance, " of ", expected);
    CHECK(std::abs(value - expected) <= tolerance);
  };
  near(100 * kept / kTrees, 8.3, 0.2);
  near(100 * static_cast<double>(all.too_long) / kTrees, 1.1, 0.1);
  near(sum / kept, 1037, 6);
  near(quartile(1), 702, 8);
  near(quartile(2), 955, 8);
  near(quartile(3), 1317, 8);
  for (int64_t digit = 0; digit < 10; ++digit) {
    CAPTURE(digit);
    const double percent = 100 * static_cast<double>(std::ranges::count(all.answers, digit)) / kept;
    if (digit == 0 || digit == 9) near(percent, 17, 1);
    if (digit != 0 && digit != 9) near(percent, 8, 1.5);  // 7 to 9, rounded
  }
  CHECK(all.wrong == 0);
  CHECK(all.deepest == 10);

  for (uint64_t i = 0; i < 2000; ++i) {
    CAPTURE(i);
    const auto tree = random_listops({1, i}, 1999);
    if (!tree) continue;
    std::istringstream text(as_text(tree->tokens));
    REQUIRE(std::get<int>(value_of_pair(text)) == tree->value);
  }
}

TEST_CASE("listops: the shares of operators, and of their numbers of arguments") {
  std::array<double, 4> operators = {};
  std::array<double, 11> arguments = {};
  std::array<double, 10> digits = {};
  double count = 0, digit_count = 0;
  for (uint64_t i = 0; i < 20'000; ++i) {
    const auto tree = random_listops({2, i}, 1999);
    if (!tree) continue;
    std::vector<size_t> open{0};
    for (const uint8_t token : tree->tokens) {
      if (token != 15) ++open.back();
      if (token > 10 && token < 15) {
        ++operators[token - 11U];
        ++count;
        open.push_back(0);
      } else if (token == 15) {
        ++arguments.at(open.back());
        open.pop_back();
      } else {
        ++digits[token - 1U];
        ++digit_count;
      }
    }
  }
  CHECK(arguments[0] + arguments[1] == 0);
  for (const double times : operators) CHECK(std::abs(times / count - 0.25) < 0.01);
  for (size_t i = 2; i <= 10; ++i) CHECK(std::abs(arguments[i] / count - 1 / 9.0) < 0.01);
  for (const double times : digits) CHECK(std::abs(times / digit_count - 0.1) < 0.01);
}

TEST_CASE("listops: the same bytes for a seed at any number of threads, all different and of the lengths") {
  const auto make = [](int threads, uint64_t seed) {
    const WithThreads with(threads);
    return generate_listops(seed, 51, 256, 3000, [](int64_t) {});
  };
  const Examples one = make(1, 1), three = make(3, 1), other = make(3, 2);
  CHECK(one.sequences.shape == Shape{3000, 256});
  CHECK(one.sequences.bytes == three.sequences.bytes);
  CHECK(one.labels == three.labels);
  CHECK(one.sequences.bytes != other.sequences.bytes);

  const LabelledSequences sequences = to_sequences(one, Ends::zeros, Ids::zero_is_padding);
  std::vector<std::vector<uint8_t>> all;
  int64_t shortest = 256, longest = 0;
  for (int64_t i = 0; i < sequences.size(); ++i) {
    const auto tokens = sequences.first()[i];
    all.emplace_back(tokens.begin(), tokens.end());
    REQUIRE(value_of_listops(tokens) == sequences.labels()[static_cast<size_t>(i)]);
    shortest = std::min(shortest, std::ssize(tokens));
    longest = std::max(longest, std::ssize(tokens));
  }
  CHECK(shortest == 51);
  CHECK(longest == 256);
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());

  // The expressions are taken in the order of their numbers.
  int64_t taken = 0;
  for (uint64_t i = 0; taken < 5; ++i) {
    const auto tree = random_listops({1, i}, 256);
    if (!tree || tree->tokens.size() < 51) continue;
    const auto tokens = sequences.first()[taken++];
    CHECK(tree->tokens == std::vector<uint8_t>(tokens.begin(), tokens.end()));
  }
}

TEST_CASE("listops: duplicates are left out, and lengths of too few expressions are refused") {
  const Examples digits = generate_listops(1, 1, 1, 10, [](int64_t) {});
  std::vector<uint8_t> sorted = digits.sequences.bytes;
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == std::vector<uint8_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const auto load = [](int64_t least, int64_t most) {
    const TemporaryFolder folder;
    Settings settings = listops_in(folder.path());
    settings.lra.min_tokens = least;
    settings.context = most;
    load_listops(settings);
  };
  CHECK_THROWS_WITH_AS(generate_listops(1, 1, 1, 11, [](int64_t) {}),
                       "--min-tokens 1 --context 1: only 10 different expressions of these lengths turned up; allow "
                       "more lengths",
                       UsageError);
  CHECK_THROWS_WITH_AS(load(0, 5), doctest::Contains("--min-tokens 0 --context 5: "), UsageError);
  CHECK_THROWS_WITH_AS(load(6, 5), doctest::Contains("--min-tokens 6 --context 5: "), UsageError);
  CHECK_THROWS_AS(load(501, 20001), UsageError);
}

TEST_CASE("listops: the published files hold what was written, and come before generated data") {
  const TemporaryFolder folder;
  std::string lines;
  std::vector<ListOps> kept;
  for (uint64_t i = 0; kept.size() < 20; ++i) {
    auto tree = random_listops({1, i}, 1999);
    if (!tree || tree->tokens.size() < 501) continue;
    lines += as_text(tree->tokens) + '\t' + std::to_string(tree->value) + "\r\n";
    kept.push_back(std::move(*tree));
  }
  write_published(folder / "listops", lines);
  for (const char* data : {".", "listops"}) {
    const SequenceData read = load_listops(listops_in(folder / data));
    CHECK(read.name.starts_with("listops ("));
    CHECK(read.name.find(" bytes, crc32 ") != std::string::npos);
    for (const LabelledSequences* part : {&read.train, &read.dev, &read.test}) {
      REQUIRE(part->size() == 20);
      for (int64_t i = 0; i < 20; ++i) {
        const ListOps& tree = kept[static_cast<size_t>(i)];
        CHECK(std::ranges::equal(part->first()[i], tree.tokens));
        CHECK(part->labels()[static_cast<size_t>(i)] == tree.value);
      }
    }
  }
  const std::vector<int64_t> first{0};
  const nn::Batch batch = load_listops(listops_in(folder.path())).train.collate(first, {});
  const std::vector<int64_t> ids = batch.inputs.to_vector<int64_t>();
  CHECK(std::ranges::equal(ids, kept[0].tokens));
}

TEST_CASE("listops: malformed files are refused with the line") {
  CHECK(refusal("7\t7\n") == "accepted");
  has_part(refusal("7\n"), "basic_train.tsv, line 3: 1 columns, where 2 are expected: Source, Target, with tabs");
  has_part(refusal("7\t7\t7\n"), "line 3: 3 columns, where 2 are expected");
  has_part(refusal("( [MEAN 7 )\t7\n"),
           "line 3: the word '[MEAN'; a digit, [MIN, [MAX, [MED, [SM, ], ( or ) is expected");
  has_part(refusal("10\t7\n"), "the word '10'");
  has_part(refusal("7\t10\n"), "line 3: the Target '10'; a digit is expected");
  has_part(refusal("7\t\n"), "line 3: the Target ''; a digit is expected");
  has_part(refusal("7\t8\n"), "line 3: the Target '8'; the value of the Source is 7");
  has_part(refusal("( [MIN 7 )\t7\n"), "line 3: the Source '( [MIN 7 )'; it is not one whole expression");
  has_part(refusal("\t7\n"), "line 3: the Source ''; it is not one whole expression");
  std::string long_source = "[SM";
  for (int i = 0; i < 1998; ++i) long_source += " 5";
  has_part(refusal(long_source + " ]\t0\n"), "it has 2000 tokens, where at most 1999 are expected");

  const TemporaryFolder folder;
  write_published(folder / "listops", "");
  CHECK_THROWS_WITH_AS(load_listops(listops_in(folder.path())), doctest::Contains("basic_train.tsv has no examples"),
                       IoError);
  write_bytes(folder / "listops/basic_train.tsv", "7\t7\n");
  CHECK_THROWS_WITH_AS(load_listops(listops_in(folder.path())),
                       doctest::Contains("line 1: a header is expected: Source, Target, with tabs between"), IoError);
  write_published(folder / "listops", "7\t7\n");
  std::filesystem::remove(folder / "listops/basic_val.tsv");
  CHECK_THROWS_WITH_AS(load_listops(listops_in(folder.path())), doctest::Contains("basic_val.tsv"), IoError);
}
