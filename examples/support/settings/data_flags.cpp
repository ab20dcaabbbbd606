#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "support/settings/program.h"

/// The flags that say which data a program reads, and how.

namespace linnet::examples {
namespace {

/// The flags for the data of the Long Range Arena. Each task has those that say something about its data.
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
    app.add_flag("--stand-in", s.lra.stand_in, "take other data, and say so, where the public set is absent");
  }
  if (is({"image", "pathfinder", "digits"})) {
    app.add_flag("--black-is-padding", s.lra.black_is_padding, "hide black pixels, as public PyTorch code does");
  }
  if (is({"image", "digits"})) {
    app.add_option("--downsample", s.lra.downsample, "pixels on a side of a token")->check(whole_number(1));
  }
  if (is({"listops"})) {
    app.add_option("--min-tokens", s.lra.min_tokens, "of the shortest expression")->check(whole_number(1));
  }
  if (is({"pathfinder"})) {
    app.add_option("--contour-length", s.lra.contour_length, "paddles of a snake")->check(whole_number(2));
    app.add_option("--distractors", s.lra.distractors, "snakes that mean nothing")->check(whole_number(0));
  }
  if (is({"listops", "pathfinder", "text", "retrieval"})) {
    app.add_option("--data-seed", s.lra.data_seed, "of generated data")->check(whole_number(0));
  }
}

/// The flags for the data of tasks of users, with what each task calls them.
void add_user_flags(CLI::App& app, Settings& s) {
  const bool clicks = s.task == "recommendation";
  app.add_option("--data", s.data,
                 clicks ? "folder of MIND with train/ and dev/, each with news.tsv and behaviors.tsv (default: "
                          "generated clicks)"
                        : "folder with train.jsonl, dev.jsonl and test.jsonl, or one such file, which is divided "
                          "(default: generated users)")
      ->check(path());
  app.add_flag("--strict", s.of_users.strict, "end at a malformed line; else such lines are left out and counted");
  app.add_option("--title-words", s.of_users.title_words, "the most words of a title or another text, the first ones")
      ->check(whole_number(1, 10'000));
  app.add_option("--history", s.of_users.history, "the most news or behaviours of a user, the last ones")
      ->check(whole_number(1, 10'000));
  // Larger values would run for days before any output.
  app.add_option("--users", s.of_users.users, "of generated data, to learn from")->check(whole_number(1, 1'000'000));
  app.add_option("--test-users", s.of_users.test_users, "of generated data, others, to test with")
      ->check(whole_number(1, 1'000'000));
  if (clicks) {
    app.add_option("--items", s.of_users.items, "of generated data, that can be clicked")
        ->check(whole_number(100, 1'000'000));
  } else {
    app.add_option("--sharpness", s.of_users.sharpness, "of generated data, a factor of the labels' log odds")
        ->check(number(0, 1000));
  }
  app.add_option("--data-seed", s.lra.data_seed, "of generated data")->check(whole_number(0));
}

}  // namespace

void add_data_flags(CLI::App& app, Settings& s) {
  if (kind_of(s.task) == TaskKind::sequences) {
    add_sequence_flags(app, s);
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
    app.add_flag("--bytes", s.bytes, "take each byte for a character, not each code point of Unicode");
    app.add_flag("--normalise-newlines", s.normalise_newlines, "read CR LF, and CR alone, as LF");
  }
}

}  // namespace linnet::examples
