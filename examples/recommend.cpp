/// Hierarchical use of Fastformer (Wu et al. 2021, section 4.1): tokens to items and items to users, each with an
/// encoder and additive pooling, to rank what a user will click. The clicks are generated.

#include <functional>
#include <vector>

#include <fmt/format.h>
#include <linnet/linnet.h>
#include <CLI/CLI.hpp>

#include "support/run/progress.h"
#include "support/settings/program.h"
#include "support/table.h"
#include "support/tasks/click_data.h"

using namespace linnet;
using namespace linnet::examples;

namespace {

struct Options {
  int64_t width = 32, heads = 4, layers = 1;
  int64_t steps = 1000, batch = 64;
  double lr = 5e-3, dropout = 0.1;
  ClickDataConfig data;
};

/// Impressions as tensors, for B users, H items of history and K candidates.
struct Batch {
  Tensor history, history_mask, candidates;  // int64 [B, H], bool [B, H], int64 [B, K]
};

Batch batch_of(const std::vector<Impression>& impressions, int64_t first, int64_t count) {
  std::vector<int64_t> history, candidates;
  std::vector<bool> padding_mask;
  for (int64_t i = first; i < first + count; ++i) {
    const Impression& impression = impressions[static_cast<size_t>(i % std::ssize(impressions))];
    for (int64_t j = 0; j < ClickData::kHistory; ++j) {
      const bool there = j < std::ssize(impression.history);
      history.push_back(there ? impression.history[static_cast<size_t>(j)] : 0);
      padding_mask.push_back(there);
    }
    candidates.insert(candidates.end(), impression.candidates.begin(), impression.candidates.end());
  }
  return {tensor(history).reshape({count, -1}), tensor(padding_mask).reshape({count, -1}),
          tensor(candidates).reshape({count, -1})};
}

/// Maps a sequence of vectors [B, N, C] and its padding mask to one vector [B, C].
using Encode = std::function<Tensor(const Tensor& x, const Tensor& padding_mask)>;

/// The mean over the tokens that are not padding, the baseline for the encoders.
Tensor masked_mean(const Tensor& x, const Tensor& padding_mask) {
  const Tensor weights = padding_mask.to(x.dtype()).unsqueeze(-1);
  return sum(x * weights, {1}) / sum(weights, {1});
}

/// Scores candidates for users. A title's tokens become the vector of an item, a history's items that of a user.
class Recommender : public nn::Module {
 public:
  Recommender(Generator& rng, const Options& options, const ClickData& data, bool with_encoders, DType dtype,
              Device device)
      : Module(rng, dtype, device),
        titles_(data.titles().to(device)),
        title_mask_(data.title_mask().to(device)),
        width_(options.width),
        tokens_(*this, "tokens", ClickData::kVocabulary, options.width) {
    const auto add = [&](std::optional<nn::FastformerEncoder>& encoder, const char* name, int64_t longest) {
      if (!with_encoders) return Encode(masked_mean);
      encoder.emplace(*this, name,
                      nn::FastformerEncoderConfig{.width = options.width,
                                                  .heads = options.heads,
                                                  .hidden = 2 * options.width,
                                                  .layers = options.layers,
                                                  .max_tokens = longest,
                                                  .dropout = options.dropout,
                                                  .eps = 1e-5,
                                                  .released = false});
      return Encode([&encoder](const Tensor& x, const Tensor& padding_mask) { return (*encoder)(x, padding_mask); });
    };
    encode_item_ = add(item_encoder_, "items", ClickData::kTitle);
    encode_user_ = add(user_encoder_, "users", ClickData::kHistory);
  }

  /// The scores user · candidate, [B, K].
  Tensor operator()(const Batch& batch) const {
    const Tensor user = encode_user_(items(batch.history.to(device())), batch.history_mask.to(device()));
    return matmul(items(batch.candidates.to(device())), user.unsqueeze(-1)).squeeze(-1);
  }

 private:
  /// The vectors [B, N, C] of the items with these ids [B, N].
  Tensor items(const Tensor& ids) const {
    const Tensor flat = ids.flatten();
    const Tensor item = encode_item_(tokens_(index_select(titles_, 0, flat)), index_select(title_mask_, 0, flat));
    return item.reshape({ids.size(0), ids.size(1), width_});
  }

  Tensor titles_, title_mask_;  // for all items
  int64_t width_;
  nn::Embedding tokens_;
  std::optional<nn::FastformerEncoder> item_encoder_, user_encoder_;
  Encode encode_item_, encode_user_;
};

/// Trains with cross entropy: the first candidate is the clicked one.
void train(Recommender& model, const ClickData& data, const Options& options, const std::string& name) {
  nn::AdamW optimizer(model.parameters(), {.lr = options.lr});
  const nn::Schedule rate = nn::schedule::one_cycle({.max_lr = options.lr, .steps = options.steps});
  Progress progress(stdout, options.steps, name);
  for (int64_t step = 0; step < options.steps; ++step) {
    optimizer.set_lr(rate(step));
    const Batch batch = batch_of(data.train(), step * options.batch, options.batch);
    const Tensor loss = cross_entropy(model(batch), zeros({options.batch}, DType::int64, model.device()));
    backward(loss);
    nn::clip_grad_norm_(model.parameters(), 1);
    optimizer.step();
    optimizer.zero_grad();
    progress.update(step + 1, {{"loss", fmt::format("{:.3f}", loss.item<double>())}});
  }
  progress.finish();
}

struct Metrics {
  double auc = 0, mrr = 0, ndcg_5 = 0, ndcg_10 = 0;
};

/// The ranking metrics of `score`, averaged over the test users.
Metrics evaluate(const ClickData& data, const std::function<Tensor(const Batch&)>& score) {
  const NoGrad no_grad;
  Metrics total;
  const auto users = static_cast<double>(data.test().size());
  for (int64_t i = 0; i < std::ssize(data.test()); ++i) {
    const Tensor scores = score(batch_of(data.test(), i, 1)).squeeze(0);
    const Tensor clicked = arange(scores.numel()).eq(0);
    total.auc += nn::roc_auc(scores, clicked) / users;
    total.mrr += nn::mean_reciprocal_rank(scores, clicked) / users;
    total.ndcg_5 += nn::ndcg(scores, clicked, 5) / users;
    total.ndcg_10 += nn::ndcg(scores, clicked, 10) / users;
  }
  return total;
}

Metrics train_and_evaluate(const ClickData& data, const Options& options, const Settings& settings,
                           bool with_encoders) {
  Generator rng(settings.seed);
  Recommender model(rng, options, data, with_encoders, model_dtype(settings), device_of(settings));
  train(model, data, options, with_encoders ? "fastformer" : "mean");
  model.eval();
  return evaluate(data, [&](const Batch& batch) { return model(batch); });
}

void run(const Options& options, const Settings& settings) {
  apply_machine_settings(settings);
  const ClickData data(options.data);
  Table table({"model", "AUC", "MRR", "nDCG@5", "nDCG@10"});
  const auto add = [&](const std::string& name, const Metrics& m) {
    table.add_row({name, fmt::format("{:.4f}", m.auc), fmt::format("{:.4f}", m.mrr), fmt::format("{:.4f}", m.ndcg_5),
                   fmt::format("{:.4f}", m.ndcg_10)});
  };
  Generator chance(settings.seed);
  add("chance", evaluate(data, [&](const Batch& batch) { return rand(batch.candidates.shape(), chance); }));
  add("means of embeddings", train_and_evaluate(data, options, settings, false));
  add("Fastformer, twice", train_and_evaluate(data, options, settings, true));
  fmt::print("\ngenerated clicks, {} users to learn from, {} to test, {} candidates each, seed {}\n{}",
             options.data.users, options.data.test_users, options.data.test_candidates, settings.seed, table.str());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Ranks what users will click with two Fastformers: tokens to items, items to users.", "recommend");
  return run_program(app, [&] {
    Settings settings;
    Options options;
    add_common_flags(app, settings);
    // Larger values would run for days before any output.
    const auto count = [&](const char* flag, int64_t& value, int64_t least, int64_t most, const char* text) {
      app.add_option(flag, value, text)->check(whole_number(least, most));
    };
    count("--users", options.data.users, 1, 1'000'000, "to learn from");
    count("--test-users", options.data.test_users, 1, 1'000'000, "others, to test with");
    count("--items", options.data.items, 100, 1'000'000, "that can be clicked");
    count("--width", options.width, 1, 1'000'000, "channels, a multiple of the heads");
    count("--heads", options.heads, 1, 1'000'000, "attention heads");
    count("--layers", options.layers, 1, 1000, "of each encoder");
    count("--steps", options.steps, 1, 1'000'000'000, "optimizer steps");
    count("--batch", options.batch, 1, 1'000'000, "users a step");
    app.add_option("--lr", options.lr, "highest learning rate")->check(number(1e-9, 1e3));
    app.add_option("--dropout", options.dropout, "rate in the encoders")->check(number(0, 0.99));
    app.parse(argc, argv);
    if (options.width % options.heads != 0) {
      throw UsageError(fmt::format("--width {} is not a multiple of --heads {}", options.width, options.heads));
    }
    options.data.seed = settings.seed;
    run(options, settings);
  });
}
