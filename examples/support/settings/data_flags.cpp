#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "support/settings/program.h"
#include "support/settings/summaries.h"
#include "support/settings/user_flags.h"
#include "support/texts/formats.h"

/// The flags that say where data are, and how they are read.

namespace linnet::examples {
namespace {

constexpr const char* kBesideSources = LINNET_SOURCE_DIR "/data";

/// The flags for the data of the Long Range Arena. Each task has those that apply to its data.
void add_sequence_flags(CLI::App& app, Settings& s) {
  const auto is = [&](std::initializer_list<const char*> tasks) {
    return std::ranges::any_of(tasks, [&](const char* task) { return s.task == task; });
  };
  app.add_option("--data", s.data,
                 fmt::format("folder with the data (default: the first of {} that has them)", data_places()))
      ->check(path());
  if (is({"listops", "text", "retrieval"})) {
    app.add_option("--context", s.context, "tokens of the longest sequence")->check(whole_number(1));
  }
  if (is({"text", "retrieval", "image", "digits"})) {
    app.add_flag("--stand-in", s.lra.stand_in, "use other data, and say so, if the public set is absent");
  }
  if (is({"image", "pathfinder", "digits"})) {
    app.add_flag("--black-is-padding", s.lra.black_is_padding, "hide black pixels, as public PyTorch code does");
  }
  if (is({"image", "pathfinder", "digits"})) {
    app.add_option("--downsample", s.lra.downsample, "pixels on a side of a token")->check(whole_number(1));
  }
  if (is({"listops"})) {
    app.add_option("--min-tokens", s.lra.min_tokens, "tokens of the shortest expression")->check(whole_number(1));
  }
  if (is({"pathfinder"})) {
    app.add_option("--contour-length", s.lra.contour_length, "paddles in a snake")->check(whole_number(2));
    app.add_option("--distractors", s.lra.distractors, "shorter snakes, which only distract")->check(whole_number(0));
  }
  if (is({"listops", "pathfinder", "text", "retrieval"})) {
    app.add_option("--data-seed", s.lra.data_seed, "seed of generated data")->check(whole_number(0));
  }
}

/// The flags for texts with labels.
void add_labelled_text_flags(CLI::App& app, Settings& s) {
  app.add_option("--data", s.data,
                 fmt::format("a file of texts, or a folder with train, dev and test parts (default: the first of {} "
                             "that has the task's)",
                             data_places()))
      ->check(path());
  app.add_option("--format", s.texts.format, "of the files (default: auto, by their ending)")
      ->check(CLI::IsMember(text_format_names()));
  app.add_option(
      "--text-field", s.texts.text_field,
      "fields of the text, comma-separated: names in JSON, numbers in tables (default: text; in tables all "
      "but the label)");
  app.add_option("--label-field", s.texts.label_field, "field of the label (default: label; in tables 1)");
  app.add_option("--context", s.context, "words of a text that the model sees")->check(whole_number(1));
  app.add_option("--vocabulary", s.texts.vocabulary, "the most words in the vocabulary")->check(whole_number(1));
  app.add_option("--min-count", s.texts.min_count, "how often a word must occur to be in the vocabulary")
      ->check(whole_number(1));
  app.add_option("--glove", s.texts.glove, "file of word vectors, with which embeddings start")->check(path());
  app.add_flag("--strict", s.texts.strict, "end at a malformed line, instead of skipping it");
  app.add_flag("--stand-in", s.lra.stand_in, "use generated texts, and say so, if the public set is absent");
  app.add_option("--data-seed", s.lra.data_seed, "seed of the division into parts, and of generated texts")
      ->check(whole_number(0));
}

}  // namespace

std::vector<std::filesystem::path> data_folders() {
  std::vector<std::filesystem::path> folders;
  if (const char* variable = std::getenv("LINNET_DATA"); variable != nullptr && *variable != '\0') {
    folders.emplace_back(variable);
  }
  folders.emplace_back(kBesideSources);
  folders.emplace_back("data");
  return folders;
}

std::string data_places() { return fmt::format("$LINNET_DATA, {}, data/ here", kBesideSources); }

void add_data_flags(CLI::App& app, Settings& s) {
  if (kind_of(s.task) == TaskKind::sequences) {
    add_sequence_flags(app, s);
  } else if (kind_of(s.task) == TaskKind::labelled_texts) {
    add_labelled_text_flags(app, s);
  } else if (kind_of(s.task) == TaskKind::summaries) {
    add_article_flags(app, s);
  } else if (kind_of(s.task) == TaskKind::users) {
    add_user_flags(app, s);
  } else if (kind_of(s.task) == TaskKind::images) {
    app.add_option("--data", s.data,
                   fmt::format("folder with the four files of MNIST or of other images, or with mnist/ (default: the "
                               "first of {} that has mnist/)",
                               data_places()))
        ->check(path());
    app.add_flag("--transpose", s.transpose, "the files hold images column by column, as EMNIST's do");
  } else {
    app.add_option(
           "--data", s.data,
           fmt::format("a text, a folder of *.txt files, or one with tinyshakespeare/ (default: the first of {} "
                       "that has tinyshakespeare/)",
                       data_places()))
        ->check(path());
    app.add_flag("--bytes", s.bytes, "treat each byte as a character, instead of each code point of Unicode");
    app.add_flag("--normalise-newlines", s.normalise_newlines, "read CR LF, and CR alone, as LF");
  }
}

}  // namespace linnet::examples
