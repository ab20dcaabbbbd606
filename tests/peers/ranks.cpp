/// Times sums over processes, and training steps with buckets of several sizes:
///
///     mpirun -np 2 build/bin/linnet_ranks
///     mpirun -np 2 build/bin/linnet_ranks LAYERS HEADS WIDTH CONTEXT BATCH STEPS THREADS KIB...
///
/// The model is that of train_shakespeare, and the text is random. KIB are sizes of buckets. Rank 0 prints its times.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <linnet/linnet.h>

using namespace linnet;

namespace {

constexpr double kMiB = 1 << 20;
constexpr int64_t kVocabulary = 65;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double milliseconds_of(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

void print(const ProcessGroup& group, const std::string& row) {
  if (group.rank() == 0) std::cout << row << '\n' << std::flush;
}

/// Prints a table of the time of an all_reduce by its size.
void time_sums(ProcessGroup& group) {
  print(group, "| bytes | microseconds | GB/s sent |\n|---|---|---|");
  for (int64_t bytes = 8; bytes <= int64_t{64} << 20; bytes *= bytes < 512 ? 64 : 8) {
    const Tensor x = zeros({bytes / 4});
    std::vector<double> times;
    const int64_t before = group.bytes_sent();
    for (int i = 0; i < 21; ++i) {
      group.barrier();
      times.push_back(milliseconds_of([&] { group.all_reduce(x); }));
    }
    const double sent = static_cast<double>(group.bytes_sent() - before) / static_cast<double>(times.size());
    const double ms = median(times);
    print(group, fmt::format("| {} | {:.1f} | {:.2f} |", bytes, 1e3 * ms, sent / ms / 1e6));
  }
}

/// The times of steps with one size of buckets.
struct Figures {
  std::vector<double> step, in_backward, after_backward;  ///< milliseconds; the last two in MPI
  double sent = 0;                                        ///< bytes sent in a step
};

/// A model that is trained by steps like those of the programs.
class Trained {
 public:
  Trained(ProcessGroup& group, const nn::DecoderConfig& config, int64_t batch)
      : group_(group), model_(rng_, config), optimizer_(model_.parameters(), {.weight_decay = 0.1}) {
    inputs_ = randint(0, kVocabulary, {batch, config.context}, rng_);
    targets_ = randint(0, kVocabulary, {batch, config.context}, rng_);
  }

  /// Makes steps with buckets of this size, and adds their times.
  void step(int64_t bucket_bytes, int64_t steps, Figures& figures) {
    nn::DataParallel parallel(group_, model_, {.shards = group_.world_size(), .bucket_bytes = bucket_bytes});
    const int64_t before = group_.bytes_sent();
    for (int64_t i = 0; i < steps; ++i) {
      const Profile profile;
      figures.step.push_back(milliseconds_of([&] { step(parallel); }));
      double in_backward = 0, after_backward = 0;
      for (const KernelCall& call : profile.calls()) {
        if (call.op == "messages") (call.backward ? in_backward : after_backward) += call.ms;
      }
      figures.in_backward.push_back(in_backward);
      figures.after_backward.push_back(after_backward);
    }
    figures.sent = static_cast<double>(group_.bytes_sent() - before) / static_cast<double>(steps);
  }

  /// The least bytes that a rank must send for a sum.
  double least_sent() const {
    double bytes = 0;
    for (const Tensor& parameter : model_.parameters()) bytes += static_cast<double>(4 * parameter.numel());
    return 2 * bytes * (group_.world_size() - 1) / group_.world_size();
  }

 private:
  void step(nn::DataParallel& parallel) {
    parallel.backward(
        [&](const nn::Shard& shard) { return cross_entropy(model_(shard.of(inputs_)), shard.of(targets_)); });
    const Tensor norm = nn::grad_norm(model_.parameters());
    optimizer_.step({.grad_factor = nn::clip_factor(norm, 1.0)});
    optimizer_.zero_grad();
  }

  ProcessGroup& group_;
  Generator rng_{1337};
  nn::DecoderLM model_;
  nn::AdamW optimizer_;
  Tensor inputs_, targets_;
};

/// Prints a table of a training step by the size of buckets, in two rounds.
void time_steps(ProcessGroup& group, Trained& model, int64_t steps, const std::vector<int64_t>& kib) {
  Figures warm_up;
  model.step(int64_t{1} << 20, 1, warm_up);
  std::map<int64_t, Figures> of_size;
  for (int round = 0; round < 2; ++round) {
    for (const int64_t size : kib) model.step(1024 * size, steps, of_size[size]);
  }
  print(group, fmt::format("least to send: {:.1f} MiB a step\n", model.least_sent() / kMiB));
  print(group,
        "| KiB of a bucket | ms a step | in MPI during backward | after it | MiB sent |\n|---|---|---|---|---|");
  for (const auto& [size, figures] : of_size) {
    print(group, fmt::format("| {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} |", size, median(figures.step),
                             median(figures.in_backward), median(figures.after_backward), figures.sent / kMiB));
  }
}

void run(const std::vector<std::string>& arguments) {
  ProcessGroup group;
  if (arguments.empty()) {
    set_num_threads(1);
    return time_sums(group);
  }
  if (arguments.size() < 8) throw ValueError("arguments: LAYERS HEADS WIDTH CONTEXT BATCH STEPS THREADS KIB...");
  std::vector<int64_t> numbers(arguments.size());
  std::ranges::transform(arguments, numbers.begin(), [](const std::string& text) { return std::stoll(text); });
  set_num_threads(static_cast<int>(numbers[6]));
  Trained model(group,
                {.vocabulary = kVocabulary,
                 .context = numbers[3],
                 .layers = numbers[0],
                 .block = {.attention = {.width = numbers[2], .heads = numbers[1]}}},
                numbers[4]);
  time_steps(group, model, numbers[5], {numbers.begin() + 7, numbers.end()});
}

}  // namespace

int main(int argc, char** argv) try { run({argv + 1, argv + argc}); } catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
