#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "support/settings/program.h"
#include "support/settings/settings.h"
#include "support/settings/summaries.h"

// The published presets, and how to find them by task and name.

namespace linnet::examples {
namespace {

Settings nanogpt_cpu() {
  Settings s;
  s.task = "shakespeare";
  s.preset = "nanogpt-cpu";
  return s;
}

Settings nanogpt_gpu() {
  Settings s = nanogpt_cpu();
  s.preset = "nanogpt-gpu";
  s.layers = 6;
  s.heads = 6;
  s.width = 384;
  s.context = 256;
  s.batch = 64;
  s.steps = 5000;
  s.dropout = 0.2;
  return s;
}

Settings mnist_small() {
  Settings s;
  s.task = "mnist";
  s.preset = "mnist-small";
  s.layers = 6;
  s.width = 96;
  s.feed_forward = 2;
  s.bias = true;
  s.batch = 128;
  s.steps = 0;
  s.epochs = 10;
  s.schedule = "one-cycle";
  s.min_lr = 0;
  s.warmup = 0;
  s.beta2 = 0.999;
  s.weight_decay = 0.01;
  s.decay_matrices_only = false;
  s.clip = 0;
  s.eval_every = 469;
  s.eval_batches = 0;
  return s;
}

/// The model and optimizer of the Long Range Arena in public PyTorch code (Xiong et al. 2021, Nyströmformer; Chen et
/// al. 2021, Skyformer), with Skyformer's clipping and steps, whose results Gerami et al. 2024, table 1, repeats.
Settings lra(const std::string& task, int64_t context, int64_t batch, double lr, int64_t warmup, int64_t eval_every) {
  Settings s;
  s.task = task;
  s.preset = "lra-" + task;
  s.layers = 2;
  s.heads = 2;
  s.width = 64;
  s.feed_forward = 2;
  s.bias = true;
  s.dropout = 0.1;
  s.attention_dropout = 0.1;
  s.context = context;
  s.batch = batch;
  s.steps = 50000;
  s.schedule = "one-cycle-linear";
  s.lr = lr;
  s.min_lr = 0;
  s.warmup = warmup;
  s.beta2 = 0.999;
  s.eps = 1e-6;
  s.weight_decay = 0;
  s.decay_matrices_only = false;
  s.clip = 0;
  s.clip_value = 1;
  s.cycle_momentum = true;
  s.keep_best = true;
  s.eval_every = eval_every;
  s.eval_batches = 0;
  s.options = {{"linformer_rank", "128"}, {"performer_features", "128"}, {"informer_queries", "128"}, {"hashes", "2"},
               {"block", "64"},           {"random_blocks", "3"}};
  return s;
}

/// The same with the batch, rate, warm-up and steps of Nyströmformer's code, which clips nothing.
Settings nystrom(Settings s, int64_t batch, double lr, int64_t warmup, int64_t steps) {
  s.preset += "-nystrom";
  s.batch = batch;
  s.lr = lr;
  s.warmup = warmup;
  s.steps = steps;
  s.clip_value = 0;
  s.options["linformer_rank"] = s.options["performer_features"] = "256";
  return s;
}

/// The same model on less data, for minutes on a CPU.
Settings small(Settings s, int64_t context, int64_t batch, int64_t steps) {
  s.preset += "-small";
  s.context = context;
  s.batch = batch;
  s.lr = 1e-3;
  s.steps = steps;
  s.warmup = steps / 10;
  s.eval_every = 100;
  s.eval_batches = 2048 / batch;  // few, so that evaluations take less time than the steps between them
  s.clip_value = 0;
  s.lra.pool = "kept";
  s.options = {};
  return s;
}

std::vector<Settings> lra_presets() {
  const Settings listops = lra("listops", 1999, 32, 1e-4, 1000, 500);
  const Settings text = lra("text", 4000, 16, 1e-4, 80, 2500);
  const Settings retrieval = lra("retrieval", 4000, 16, 2e-4, 800, 2500);
  const Settings image = lra("image", 1024, 256, 1e-4, 175, 1000);
  const Settings pathfinder = lra("pathfinder", 1024, 128, 2e-4, 312, 1000);
  const Settings digits = lra("digits", 784, 64, 1e-3, 1000, 1000);
  Settings small_listops = small(listops, 256, 32, 2000), small_image = small(image, 256, 64, 2000);
  Settings small_pathfinder = small(pathfinder, 1024, 64, 3000), small_digits = small(digits, 196, 64, 2000);
  small_listops.lra.min_tokens = 51;
  small_image.lra.downsample = 2;
  small_digits.lra.downsample = 2;
  small_pathfinder.lra.contour_length = 6;
  small_pathfinder.lra.distractors = 0;
  return {listops,
          nystrom(listops, 32, 1e-4, 1000, 5000),
          small_listops,
          text,
          nystrom(text, 32, 1e-4, 8000, 20000),
          retrieval,
          nystrom(retrieval, 32, 1e-4, 800, 30000),
          image,
          nystrom(image, 256, 1e-4, 175, 35000),
          small_image,
          pathfinder,
          nystrom(pathfinder, 256, 1e-4, 312, 62400),
          small_pathfinder,
          digits,
          small_digits};
}

/// Table 9 of Wu et al. 2021 gives Poolingformer a window of its own. Here it is the window of the first level, and
/// the window of the second level is twice as large.
void set_pooling_window(Settings& s, const std::string& first, const std::string& second) {
  s.own_options["poolingformer"] = {{"window", first}, {"window2", second}};
}

/// Wu et al. 2021, table 9, for recommendation on MIND. BigBird's 8 random tokens are two blocks of 4. The paper
/// gives no width of the feed-forward part; that of the published implementation is the width of a token.
Settings mind(const std::string& task, const std::string& name) {
  Settings s;
  s.task = task;
  s.preset = name;
  s.layers = 1;
  s.heads = 16;
  s.width = 256;
  s.feed_forward = 1;
  s.bias = true;
  s.dropout = 0.2;
  s.batch = 64;
  s.steps = 0;
  s.epochs = 3;
  s.lr = s.min_lr = 1e-4;
  s.warmup = 0;
  s.beta2 = 0.999;
  s.weight_decay = 0;
  s.clip = 0;
  s.eval_every = 1000;
  s.options = {
      {"global_tokens", "8"}, {"window", "8"}, {"block", "4"}, {"random_blocks", "2"}, {"linformer_rank", "16"}};
  set_pooling_window(s, "64", "128");
  return s;
}

/// The same with a small model, for a minute or two on a CPU.
Settings small_users(const std::string& task, const std::string& name) {
  Settings s = mind(task, name);
  s.heads = 4;
  s.width = 32;
  s.feed_forward = 2;
  s.dropout = 0.1;
  s.epochs = 0;
  s.steps = 1000;
  s.schedule = "one-cycle";
  s.lr = 5e-3;
  s.min_lr = 0;
  s.clip = 1;
  s.eval_every = 100;
  s.eval_batches = 4;
  s.of_users.users = 20000;  // with fewer the model memorises them
  s.options = {{"global_tokens", "2"}, {"window", "8"},         {"window2", "8"}, {"block", "4"},
               {"random_blocks", "1"}, {"linformer_rank", "8"}, {"chunk", "8"}};
  s.own_options = {};
  return s;
}

/// Wu et al. 2021, table 9. Where the table says nothing, linnet chose: the learning rate is constant, nothing is
/// clipped, and the feed-forward part has the hidden width of the authors' released code. An epoch has about
/// `eval_every` steps.
Settings classify(const std::string& task, int64_t context, int64_t eval_every) {
  Settings s;
  s.task = task;
  s.preset = "classify-" + task;
  s.layers = 2;
  s.heads = 16;
  s.width = 256;
  s.feed_forward = 1;
  s.bias = true;
  s.dropout = 0.2;
  s.context = context;
  s.batch = 64;
  s.steps = 0;
  s.epochs = 3;
  s.min_lr = s.lr = 1e-3;
  s.warmup = 0;
  s.beta2 = 0.999;
  s.weight_decay = 0;
  s.decay_matrices_only = false;
  s.clip = 0;
  s.keep_best = true;
  s.eval_every = eval_every;
  s.eval_batches = 0;
  s.lra.pool = "additive";
  s.options = {
      {"window", "8"}, {"global_tokens", "8"}, {"block", "4"}, {"random_blocks", "2"}, {"linformer_rank", "16"}};
  set_pooling_window(s, "64", "128");
  return s;
}

/// A smaller model, for minutes on a CPU.
Settings small_classify(Settings s) {
  s.preset += "-small";
  s.heads = 4;
  s.width = 128;
  s.context = 128;
  s.batch = 32;
  s.epochs = 16;
  s.min_lr = 1e-4;
  s.eval_every = 39;
  s.own_options = {};
  s.options["window2"] = "64";
  return s;
}

std::vector<Settings> classify_presets() {
  Settings amazon = classify("amazon", 512, 625), imdb = classify("imdb", 1024, 351);
  Settings topics = classify("mind-topics", 2048, 641);
  amazon.texts.text_field = "reviewText";
  amazon.texts.label_field = "overall";
  topics.options["global_tokens"] = topics.options["window"] = "16";
  set_pooling_window(topics, "256", "512");
  topics.options["block"] = "8";
  topics.texts.text_field = "4,5";
  topics.texts.label_field = "2";
  const Settings own = classify("own-texts", 512, 100);
  Settings speakers = small_classify(classify("speakers", 512, 39));
  speakers.dropout = 0.5;  // against memorising the 1,269 speeches
  return {speakers, amazon, imdb, topics, own, small_classify(own)};
}

std::vector<Settings> presets() {
  std::vector<Settings> all{nanogpt_cpu(), nanogpt_gpu(), mnist_small()};
  std::ranges::move(lra_presets(), std::back_inserter(all));
  std::ranges::move(summary_presets(), std::back_inserter(all));
  std::ranges::move(classify_presets(), std::back_inserter(all));
  Settings small_conversion = small_users("conversion", "conversion-small");
  small_conversion.of_users.users = 60000;
  small_conversion.of_users.test_users = 2000;
  small_conversion.steps = 3000;
  small_conversion.dropout = 0;
  all.insert(all.end(), {small_users("recommendation", "clicks-small"), mind("recommendation", "mind"),
                         small_conversion, mind("conversion", "conversion")});
  return all;
}

/// A task, with the names of the programs that train it.
struct TaskInfo {
  std::string name;
  TaskKind kind;
  std::string programs;
};

const std::vector<TaskInfo> kTasks{{"shakespeare", TaskKind::text, "train_text or train_shakespeare"},
                                   {"mnist", TaskKind::images, "train_mnist"},
                                   {"listops", TaskKind::sequences, "lra"},
                                   {"text", TaskKind::sequences, "lra"},
                                   {"retrieval", TaskKind::sequences, "lra"},
                                   {"image", TaskKind::sequences, "lra"},
                                   {"pathfinder", TaskKind::sequences, "lra"},
                                   {"digits", TaskKind::sequences, "lra"},
                                   {"speakers", TaskKind::labelled_texts, "classify"},
                                   {"amazon", TaskKind::labelled_texts, "classify"},
                                   {"imdb", TaskKind::labelled_texts, "classify"},
                                   {"mind-topics", TaskKind::labelled_texts, "classify"},
                                   {"own-texts", TaskKind::labelled_texts, "classify"},
                                   {"recommendation", TaskKind::users, "recommend"},
                                   {"conversion", TaskKind::users, "convert"},
                                   {"sort", TaskKind::summaries, "summarise"},
                                   {"copy", TaskKind::summaries, "summarise"},
                                   {"cnn-dailymail", TaskKind::summaries, "summarise"},
                                   {"pubmed", TaskKind::summaries, "summarise"}};

const TaskInfo& find_task(const std::string& name) {
  const auto found = std::ranges::find(kTasks, name, &TaskInfo::name);
  if (found != kTasks.end()) return *found;
  throw UsageError(fmt::format("--task {}: must be one of {}", name, fmt::join(task_names(), ", ")));
}

}  // namespace

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const TaskInfo& task : kTasks) names.push_back(task.name);
  return names;
}

std::vector<std::string> task_names(TaskKind kind) {
  std::vector<std::string> names = task_names();
  std::erase_if(names, [&](const std::string& name) { return kind_of(name) != kind; });
  return names;
}

TaskKind kind_of(const std::string& task) { return find_task(task).kind; }

std::string programs_of(const std::string& task) { return find_task(task).programs; }

std::vector<std::string> preset_names(const std::string& task) {
  std::vector<std::string> names;
  for (const Settings& known : presets()) {
    if (task.empty() || known.task == task) names.push_back(known.preset);
  }
  return names;
}

Settings preset(const std::string& task, const std::string& name) {
  for (const Settings& known : presets()) {
    if (known.preset == name && known.task == task) return known;
  }
  throw UsageError(
      fmt::format("--preset {}: the presets for {} are {}", name, task, fmt::join(preset_names(task), ", ")));
}

}  // namespace linnet::examples
