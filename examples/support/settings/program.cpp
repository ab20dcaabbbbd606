#include "support/settings/program.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <linnet/core/parallel/thread_share.h>
#include <linnet/linnet.h>

#include "support/files.h"
#include "support/ranks.h"
#include "support/settings/choices.h"
#include "support/settings/summaries.h"
#include "support/tensorboard/event_file.h"

namespace linnet::examples {
namespace {

volatile std::sig_atomic_t is_interrupted = 0;
timespec first_interrupt = {};

double seconds_since(const timespec& begin) {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec - begin.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec - begin.tv_nsec);
}

/// Says on stderr that the program stops after the current step, which may take a while. A second signal ends it
/// at once, unless it comes together with the first: `timeout` and launchers of MPI send two.
void on_interrupt(int signal) {
  constexpr double kSecondsOfOne = 0.25;
  const int before = errno;
  if (is_interrupted == 0) {
    ::clock_gettime(CLOCK_MONOTONIC, &first_interrupt);
    is_interrupted = 1;
    constexpr char kText[] = "\nstopping after this step; a second interrupt ends it at once\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  } else if (seconds_since(first_interrupt) > kSecondsOfOne) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  errno = before;
}

/// Prints the message on stderr and returns `code`, which is all that a caller gets if stderr is closed.
///
/// If all ranks fail in the same way, only rank 0 prints. A rank that fails alone says so and ends the waiting
/// others.
int complain(const CLI::App& app, const std::string& message, int code) {
  constexpr double kSecondsToFailAlike = 5;
  const bool alone = ranks().world_size() > 1 && !ranks().barrier_within(kSecondsToFailAlike);
  if (alone) restore_stderr();
  const std::string who = alone ? fmt::format("rank {}: ", ranks().rank()) : "";
  std::fputs(fmt::format("{}: {}{}\n", app.get_name(), who, message).c_str(), stderr);
  if (alone) {
    std::fflush(stderr);  // it is buffered, because join_ranks reopened it
    ranks().abort(code);
  }
  return code;
}

int exit_code_of(const CLI::App& app, const std::function<void()>& body) {
  try {
    body();
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
    return complain(app, one_line(error.what()) + "; --help lists the flags", 2);
  } catch (const UsageError& error) {
    return complain(app, error.what(), 2);
  } catch (const Interrupted& error) {
    return complain(app, error.what(), 130);
  } catch (const std::exception& error) {
    return complain(app, one_line(error.what()), 1);
  }
}

/// Adds the flag of a mechanism's option, unless another mechanism has added it.
void add_option_flag(CLI::App& app, const nn::AttentionOption& option, Settings& s) {
  const std::string flag = flag_of(option.name);
  if (app.get_option_no_throw(flag) != nullptr) return;
  if (option.kind == nn::AttentionOption::Kind::words) {  // only `share`, which can name layers too
    app.add_option(flag, s.share, "what shares weights, comma-separated: layers, or " + option.help)
        ->delimiter(',')
        ->check(CLI::IsMember(share_words()));
    return;
  }
  const auto set = [&s, name = option.name](const std::string& value) {
    s.options[name] = value;
    for (auto& [mechanism, own] : s.own_options) own.erase(name);
  };
  CLI::Option* const added = app.add_option_function<std::string>(flag, set, option.help);
  if (option.kind == nn::AttentionOption::Kind::word) added->check(CLI::IsMember(option.words));
  if (option.kind == nn::AttentionOption::Kind::integer) added->check(whole_number());
}

}  // namespace

void require_causal(std::string_view flag, std::string_view mechanism) {
  const nn::Mechanism& found = nn::find_mechanism(mechanism);
  if (found.causal) return;
  const std::string& why = found.why_not_causal;
  throw UsageError(fmt::format("{} {} has no causal form{}, which texts need; choose one of {}", flag, mechanism,
                               why.empty() ? "" : fmt::format(" ({})", why),
                               fmt::join(nn::causal_mechanisms(), ", ")));
}

std::string one_line(std::string_view message) {
  std::string line;
  for (size_t at = 0; at < message.size();) {
    if (message[at] != '\n') {
      line += message[at++];
      continue;
    }
    const size_t text = std::min(message.find_first_not_of(' ', at + 1), message.size());
    const bool is_item = text - at > 2;
    if (is_item) line += "; ";
    at = is_item ? text : at + 1;
  }
  return line;
}

int run_program(const CLI::App& app, const std::function<void()>& body) {
  const int code = exit_code_of(app, body);
  return code == 0 ? exit_code_of(app, flush_output) : code;
}

void catch_interrupts() {
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction inherited = {};
    ::sigaction(signal, nullptr, &inherited);
    if (inherited.sa_handler != SIG_IGN) std::signal(signal, on_interrupt);
  }
  std::signal(SIGPIPE, SIG_IGN);
}

bool interrupted() { return is_interrupted != 0; }

CLI::Validator path() {
  return CLI::Validator([](const std::string& text) { return text.empty() ? "it names no file or folder" : ""; }, "");
}

CLI::Validator whole_number(int64_t least, int64_t most) {
  const bool has_least = least > std::numeric_limits<int64_t>::min();
  const bool has_most = most < std::numeric_limits<int64_t>::max();
  const std::string bounds = has_most    ? fmt::format(" from {} to {}", least, most)
                             : has_least ? fmt::format(", {} or more", least)
                                         : "";
  const auto complaint = [=](const std::string& text) -> std::string {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most) return "";
    if (error == std::errc::result_out_of_range && !has_most) return text + " is out of range";
    return text + " is not a whole number" + bounds;
  };
  const std::string name = has_most     ? fmt::format("{} to {}", least, most)
                           : least == 0 ? "NONNEGATIVE"
                           : least == 1 ? "POSITIVE"
                                        : "";
  return CLI::Validator(complaint, name);
}

CLI::Validator number(double least, double most) {
  const auto complaint = [=](const std::string& text) -> std::string {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most) return "";
    return fmt::format("{} is not a number from {} to {}", text, least, most);
  };
  return CLI::Validator(complaint, fmt::format("{} to {}", least, most));
}

void add_common_flags(CLI::App& app, Settings& s) {
  app.option_defaults()->always_capture_default();
  // A function, so that it is called only for --version: build_info opens the GPU.
  app.set_version_flag("--version", [] { return build_info(); });
  app.add_option("--seed", s.seed, "decides every random number of the run")->check(whole_number(0));
  app.add_option("--threads", s.threads, "threads to use; 0 for all processors; results do not depend on it")
      ->check(whole_number(0, 1024));
  app.add_option("--device", s.device, "where to compute")->check(CLI::IsMember(words(kDevices)));
  app.add_option("--precision", s.precision,
                 "tf32 rounds the factors of products; bfloat16 also rounds activations, and keeps float32 weights; "
                 "both need --device cuda")
      ->check(CLI::IsMember({"float32", "tf32", "bfloat16"}));
}

void add_attention_flags(CLI::App& app, Settings& s) {
  app.add_option("--attention", s.attention, "the mechanism")->check(CLI::IsMember(nn::attention_mechanisms()));
  add_attention_option_flags(app, s);
}

void add_attention_option_flags(CLI::App& app, Settings& s) {
  app.add_option("--attention-dropout", s.attention_dropout,
                 "dropout rate on the weights, or on queries and keys (fastmax, linear, performer)");
  add_mechanism_flags(app, s);
  add_short_conv_flag(app, s);
}

void add_mechanism_list(CLI::App& app, const std::string& flag, std::vector<std::string>& mechanisms) {
  std::vector<std::string> known = nn::attention_mechanisms();
  known.emplace_back("all");
  const auto set = [&mechanisms](const std::vector<std::string>& given) {
    mechanisms = std::ranges::find(given, "all") == given.end() ? given : std::vector<std::string>{};
  };
  app.add_option_function<std::vector<std::string>>(flag, set, "the mechanisms, comma-separated, or all")
      ->delimiter(',')
      ->check(CLI::IsMember(known));
}

void add_mechanism_flags(CLI::App& app, Settings& s) {
  for (const nn::Mechanism& mechanism : nn::mechanisms()) {
    for (const nn::AttentionOption& option : mechanism.option_list) add_option_flag(app, option, s);
  }
}

void add_short_conv_flag(CLI::App& app, Settings& s) {
  app.add_option("--short-conv", s.short_conv, "taps of a short convolution on queries, keys and values; 0 for none")
      ->check(whole_number());
}

void add_model_flags(CLI::App& app, Settings& s) {
  app.add_option("--layers", s.layers, "blocks")->check(whole_number());
  app.add_option("--heads", s.heads, "attention heads")->check(whole_number());
  app.add_option("--width", s.width, "channels, a multiple of the heads")->check(whole_number());
  app.add_option("--dropout", s.dropout, "rate on embeddings and residual branches");
  switch (kind_of(s.task)) {
    case TaskKind::images:
      app.add_option("--patch", s.patch, "pixels on a side of a token")->check(whole_number(1));
      break;
    case TaskKind::text:
      app.add_option("--context", s.context, "characters the model sees")->check(whole_number());
      break;
    case TaskKind::sequences:
    case TaskKind::labelled_texts:
      app.add_option("--pool", s.lra.pool,
                     "how tokens become one vector: padded, their sum divided by the padded length; kept, their "
                     "mean; additive, additive attention; first, the first token")
          ->check(CLI::IsMember(words(kPools)));
      if (kind_of(s.task) == TaskKind::sequences) break;
      app.add_option("--levels", s.texts.levels,
                     "what is encoded: word, the words of a text; sentence, first each sentence, then the text")
          ->check(CLI::IsMember(words(kLevels)));
      break;
    case TaskKind::users:
      app.add_option("--encoder", s.of_users.encoder,
                     "how words, and a user's items, become a vector: layers; nrms, only softmax attention; mean")
          ->check(CLI::IsMember(words(kUserEncoders)));
      break;
    case TaskKind::summaries: add_summary_flags(app, s);
  }
  app.add_option("--positions", s.positions, "how positions are encoded")->check(CLI::IsMember(words(kPositions)));
}

void add_training_flags(CLI::App& app, Settings& s) {
  app.add_option("--preset", s.preset, "start from published settings; other flags change them")
      ->check(CLI::IsMember(preset_names(s.task)));
  add_data_flags(app, s);
  app.add_option("--batch", s.batch, "examples per step, or per micro-batch")->check(whole_number());
  app.add_option("--accumulate", s.accumulate, "micro-batches per step")->check(whole_number());
  app.add_option("--shards", s.shards,
                 "parts of a batch, a power of two, which the processes of mpirun divide; with the same number of "
                 "shards, any number of processes makes the same model")
      ->check(whole_number());
  app.add_option("--reduce", s.reduce,
                 "in-order adds the gradients of processes in a tree; any-order leaves the order to MPI, and results "
                 "then depend on the number of processes")
      ->check(CLI::IsMember({"in-order", "any-order"}));
  app.add_flag("--shard-optimizer", s.shard_optimizer,
               "each process of mpirun keeps only a part of the optimizer's state, to save memory; the model is "
               "the same");
  CLI::Option* steps = app.add_option("--steps", s.steps, "optimizer steps")->check(whole_number());
  CLI::Option* epochs = app.add_option("--epochs", s.epochs, "passes over the data, instead of --steps")
                            ->check(whole_number(1))
                            ->excludes(steps);
  (s.epochs > 0 ? steps : epochs)->default_str("");
  app.add_option("--lr", s.lr, "highest learning rate");
  app.add_option("--weight-decay", s.weight_decay, "of AdamW");
  app.add_option("--clip", s.clip, "largest norm of the gradients; 0 for no limit");
  if (s.schedule == "cosine") app.add_option("--min-lr", s.min_lr, "final learning rate");
  if (s.schedule != "one-cycle") {
    app.add_option("--warmup", s.warmup, "steps of linear rise, at most a tenth of --steps unless given")
        ->check(whole_number());
  }
  app.add_option("--eval-every", s.eval_every, "steps between evaluations")->check(whole_number());
  app.add_option("--checkpoint-every", s.checkpoint_every,
                 "steps between checkpoints; 0 for only the first and the last")
      ->check(whole_number());
  app.add_flag("--tensorboard", s.tensorboard, "write metrics for TensorBoard too, as an event file in --out");
  app.add_option("--eval-batches", s.eval_batches, "validation batches per evaluation; 0 for all data")
      ->check(whole_number());
}

void drop_preset_options(const CLI::App& app, Settings& s) {
  for (const auto& [name, value] : preset(s.task, s.preset).options) {
    if (app.count(flag_of(name)) == 0 && !has_option(s, name)) s.options.erase(name);
  }
}

void settle_training_flags(const CLI::App& app, Settings& s) {
  const Settings published = preset(s.task, s.preset);
  const bool is_constant = s.schedule == "cosine" && published.min_lr == published.lr;
  if (is_constant && app.count("--lr") > 0 && app.count("--min-lr") == 0) s.min_lr = s.lr;
  if (app.count("--epochs") > 0) s.steps = 0;
  if (app.count("--steps") == 0) return;
  s.epochs = 0;
  if (s.warmup > 0 && app.count("--warmup") == 0) s.warmup = shortened_warmup(published, s.steps);
}

std::string flag_value(int argc, char** argv, const std::string& flag, const std::string& fallback) {
  std::string value = fallback;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == flag && i + 1 < argc) value = argv[i + 1];
    if (argument.starts_with(flag + "=")) value = argument.substr(flag.size() + 1);
  }
  return value;
}

std::string command_line(std::vector<std::string> words) {
  const std::string plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:=+@%";
  for (std::string& word : words) {
    if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) continue;
    std::string quoted = "'";
    for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
    word = quoted + "'";
  }
  return fmt::format("{}", fmt::join(words, " "));
}

std::string task_from_flag(int argc, char** argv, const std::vector<std::string>& names) {
  std::string task = flag_value(argc, argv, "--task", names.front());
  if (std::ranges::find(names, task) == names.end()) {
    throw UsageError(fmt::format("--task {}: must be {}", task, fmt::join(names, " or ")));
  }
  return task;
}

void add_task_flag(CLI::App& app, std::string& task, const std::vector<std::string>& names, const std::string& note) {
  app.add_option("--task", task, "what to train" + note)->check(CLI::IsMember(names));
}

Settings settings_from_preset(int argc, char** argv, const std::string& task, const std::string& fallback) {
  Settings settings = preset(task, flag_value(argc, argv, "--preset", fallback));
  settings.command.assign(argv, argv + argc);
  return settings;
}

void apply_machine_settings(const Settings& settings) {
  if (settings.tensorboard) require_event_files();
  const bool shares = ranks().world_size() > 1 && std::getenv("LINNET_NUM_THREADS") == nullptr;
  if (settings.threads > 0) {
    set_num_threads(settings.threads);
  } else if (shares) {
    linnet::detail::set_num_threads(threads_of_rank(), "processors / ranks of this host");
  }
  const std::optional<Precision> precision = precision_named(settings.precision);
  if (!precision) {
    throw UsageError(fmt::format("--precision {}: must be float32, tf32 or bfloat16", settings.precision));
  }
  if (*precision != Precision::float32 && settings.device == "cpu") {
    throw UsageError(
        fmt::format("--precision {} does not apply to --device cpu, which computes in float32; use --device cuda",
                    settings.precision));
  }
  set_precision(*precision, device_of(settings));
  if (settings.device == "cuda" && ranks().world_size() > 1) {
    fmt::print("from GPU to GPU: {}\n", ranks().describe_gpu_messages());
  }
}

}  // namespace linnet::examples
