#include "support/settings/user_flags.h"

#include <CLI/CLI.hpp>

#include "support/settings/program.h"

namespace linnet::examples {

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

}  // namespace linnet::examples
