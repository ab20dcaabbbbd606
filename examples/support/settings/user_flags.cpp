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
  app.add_flag("--strict", s.of_users.strict,
               "end at a malformed line; otherwise such lines are skipped and counted");
  app.add_option("--title-words", s.of_users.title_words,
                 "the most words of a title or another text; later ones are cut")
      ->check(whole_number(1, 10'000));
  app.add_option("--history", s.of_users.history, "the most news or behaviours of a user; earlier ones are cut")
      ->check(whole_number(1, 10'000));
  // Larger values would run for days before any output.
  app.add_option("--users", s.of_users.users, "generated users to train on")->check(whole_number(1, 1'000'000));
  app.add_option("--test-users", s.of_users.test_users, "further generated users to test with")
      ->check(whole_number(1, 1'000'000));
  if (clicks) {
    app.add_option("--glove", s.texts.glove, "file of word vectors, with which embeddings of MIND's titles start")
        ->check(path());
    app.add_option("--items", s.of_users.items, "generated items that can be clicked")
        ->check(whole_number(100, 1'000'000));
  } else {
    app.add_option("--sharpness", s.of_users.sharpness, "factor of the log odds of generated labels")
        ->check(number(0, 1000));
  }
  app.add_option("--data-seed", s.lra.data_seed,
                 clicks ? "seed of generated data" : "seed of generated data, and of the division of a single file")
      ->check(whole_number(0));
}

}  // namespace linnet::examples
