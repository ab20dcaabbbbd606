#include "support/summaries/summary_task.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <linnet/core/files/utf8.h>

#include "support/format.h"
#include "support/ranks.h"
#include "support/settings/program.h"

namespace linnet::examples {
namespace {

ArticleParts articles_for(const Settings& s) {
  check_options(s, s.context);
  ArticleParts parts = load_articles(s);
  if (s.batch <= std::ssize(parts.train)) return parts;
  throw UsageError(fmt::format("--batch {}: there are {} articles to train on; lower it", s.batch,
                               format_count(std::ssize(parts.train))));
}

/// Letters for the generated tasks; otherwise byte pairs of the articles to train on.
std::unique_ptr<nn::Tokenizer> tokenizer_for(const ArticleParts& parts, const Settings& s) {
  if (parts.generated) {
    return std::make_unique<nn::Vocabulary>("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
  }
  constexpr int64_t kSpecial = 3;  // of SummaryIds
  std::string text;
  for (const Article& article : parts.train) text += article.text + '\n' + article.summary + '\n';
  return std::make_unique<nn::BytePairTokenizer>(
      nn::BytePairTokenizer::train(text, {.vocab_size = s.summary.vocabulary - kSpecial}));
}

/// Says on stderr how many texts were cut.
void report_cut(const char* what, int64_t count, int64_t all, int64_t most, const char* flag) {
  if (count == 0) return;
  fmt::print(stderr, "{} of {} {} are cut to {} tokens (--{})\n", format_count(count), format_count(all), what,
             format_count(most), flag);
}

std::array<nn::RougeScore, 4> rouge_of(const std::vector<std::string>& summaries,
                                       const std::vector<Article>& articles) {
  std::array<std::vector<nn::RougeScore>, 4> scores;
  for (size_t i = 0; i < summaries.size(); ++i) {
    const std::vector<std::string> reference{articles[i].summary};
    scores[0].push_back(nn::rouge_n(summaries[i], reference, 1));
    scores[1].push_back(nn::rouge_n(summaries[i], reference, 2));
    scores[2].push_back(nn::rouge_l(summaries[i], reference));
    scores[3].push_back(nn::rouge_lsum(summaries[i], reference));
  }
  std::array<nn::RougeScore, 4> means;
  std::ranges::transform(scores, means.begin(), [](const auto& of_texts) { return nn::mean_rouge(of_texts); });
  return means;
}

}  // namespace

SummaryTask::SummaryTask(const Settings& s)
    : settings_(s),
      articles_(articles_for(s)),
      tokenizer_(tokenizer_for(articles_, s)),
      ids_(*tokenizer_),
      train_(articles_.train, *tokenizer_, {s.context, s.summary.target_tokens}),
      dev_(articles_.dev, *tokenizer_, {s.context, s.summary.target_tokens}),
      test_(articles_.test, *tokenizer_, {s.context, s.summary.target_tokens}),
      rng_(s.seed),
      model_(rng_, summary_model_config(s, ids_.count), model_dtype(s), device_of(s)),
      loader_(train_, {.batch = s.batch, .seed = s.seed, .drop_last = true, .lengths = train_.lengths()}) {
  const int64_t all = train_.size() + dev_.size() + test_.size();
  report_cut("articles", train_.cut_sources() + dev_.cut_sources() + test_.cut_sources(), all, s.context, "context");
  report_cut("summaries", train_.cut_targets() + dev_.cut_targets() + test_.cut_targets(), all,
             s.summary.target_tokens, "target-tokens");
}

Tensor SummaryTask::loss(const nn::Batch& batch) {
  return cross_entropy(
      model_(batch.inputs, batch.others[0], batch.others[1]), batch.targets,
      {.ignore_index = SummaryDataset::kIgnored, .label_smoothing = settings_.summary.label_smoothing});
}

Task::Evaluation SummaryTask::evaluate(const SummaryDataset& data, int64_t batches) {
  const NoGrad no_grad;
  model_.eval();
  nn::Loader loader(data, {.batch = settings_.batch, .device = model_.device(), .lengths = data.lengths()});
  const Figures sums = sums_of_batches(batches_to_evaluate(loader, batches), [&](int64_t i) {
    const nn::Batch batch = batch_at(loader, i);
    const Tensor logits = model_(batch.inputs, batch.others[0], batch.others[1]);
    const double loss =
        cross_entropy(logits, batch.targets, {.ignore_index = SummaryDataset::kIgnored, .reduction = Reduction::sum})
            .item();
    const double correct = sum(eq(argmax(logits, -1), batch.targets).to(DType::float64)).item();  // none is kIgnored
    const double tokens = sum(ne(batch.targets, SummaryDataset::kIgnored).to(DType::float64)).item();
    return Figures{loss, correct, tokens};
  });
  model_.train();
  return {.loss = sums[0] / sums[2], .accuracy = sums[1] / sums[2]};
}

std::vector<std::string> SummaryTask::write(const SummaryDataset& data) {
  const SummarySettings& s = settings_.summary;
  const nn::BeamSearchOptions options{.num_beams = s.beam,
                                      .length_penalty = s.alpha,
                                      .min_length = s.min_length,
                                      .max_length = s.max_length == 0 ? s.target_tokens : s.max_length,
                                      .no_repeat_ngram_size = s.no_repeat,
                                      .bos_token_id = ids_.begin,
                                      .eos_token_id = ids_.end,
                                      .suppress_tokens = {ids_.padding}};
  std::vector<int64_t> order(static_cast<size_t>(data.size()));  // by length, so that there is little padding
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {},
                           [lengths = data.lengths()](int64_t i) { return lengths[static_cast<size_t>(i)]; });
  const auto size = static_cast<size_t>(settings_.batch);
  const auto indices_of = [&](size_t batch) {
    return std::span(order).subspan(batch * size, std::min(size, order.size() - batch * size));
  };
  const size_t batches = (order.size() + size - 1) / size;
  const auto written = figures_of_batches(static_cast<int64_t>(batches), [&](int64_t i) {
    const nn::Batch batch = data.collate(indices_of(static_cast<size_t>(i)), {});
    const Device device = model_.device();
    Figures ids;  // of each summary, after their number
    for (const auto& best : nn::beam_search(model_, batch.inputs.to(device), batch.others[0].to(device), options)) {
      ids.push_back(static_cast<double>(best.ids.size()));
      ids.insert(ids.end(), best.ids.begin(), best.ids.end());
    }
    return ids;
  });
  std::vector<std::string> summaries(order.size());
  for (size_t batch = 0; batch < batches; ++batch) {
    auto at = written[batch].begin();
    for (const int64_t index : indices_of(batch)) {
      const auto begin = at + 1, end = begin + static_cast<ptrdiff_t>(*at);
      summaries[static_cast<size_t>(index)] = tokenizer_->decode(std::vector<int64_t>(begin, end));
      at = end;
    }
  }
  return summaries;
}

Measures SummaryTask::measures_of(const std::vector<std::string>& summaries) const {
  const std::vector<Article>& articles = articles_.test;
  if (articles_.generated) {
    int64_t right = 0;
    for (size_t i = 0; i < summaries.size(); ++i) right += summaries[i] == articles[i].summary;
    return {{"exact match", 100.0 * static_cast<double>(right) / static_cast<double>(summaries.size())}};
  }
  std::vector<std::string> baseline;
  for (const Article& article : articles) baseline.push_back(first_sentences(article.text, 3));
  Measures measures;
  for (const auto& [texts, prefix] : {std::pair{&summaries, ""}, std::pair{&std::as_const(baseline), "first 3 "}}) {
    const std::array<nn::RougeScore, 4> scores = rouge_of(*texts, articles);
    constexpr std::array kNames{"R-1", "R-2", "R-L", "R-Lsum"};
    for (size_t i = 0; i < scores.size(); ++i)
      measures.emplace_back(prefix + std::string(kNames[i]), 100 * scores[i].f1);
  }
  return measures;
}

Task::Evaluation SummaryTask::test() {
  Evaluation result = evaluate(test_, 0);
  written_ = write(test_);
  result.measures = measures_of(written_);
  return result;
}

std::string SummaryTask::sample(int64_t) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, written_.size()); ++i) {
    text += fmt::format("{}---- article ----\n{}\n---- summary ----\n{}\n---- written ----\n{}\n", i > 0 ? "\n" : "",
                        linnet::detail::shortened(articles_.test[i].text), articles_.test[i].summary, written_[i]);
  }
  return text;
}

nn::EncoderDecoderConfig summary_model_config(const Settings& s, int64_t vocabulary) {
  return {.vocabulary = vocabulary,
          .source_tokens = s.context,
          .target_tokens = s.summary.target_tokens,
          .encoder_layers = s.layers,
          .decoder_layers = s.summary.decoder_layers,
          .share_layers = shares(s, "layers"),
          .block = block_config(s),
          .decoder = block_config(settings_of(s.summary.decoder_attention, s)).attention,
          .cross = block_config(settings_of(s.summary.cross, s)).attention,
          .positions = positions_of(s)};
}

std::string first_sentences(std::string_view text, int64_t count) {
  std::string sentences;
  while (count > 0 && !text.empty()) {
    size_t end = 0;
    while (end < text.size() && text[end] != '\n') {
      const bool ends = text[end] == '.' || text[end] == '?' || text[end] == '!';
      ++end;
      if (ends && (end == text.size() || text[end] == ' ')) break;
    }
    const size_t first = text.substr(0, end).find_first_not_of(' ');
    if (first < end) {
      if (!sentences.empty()) sentences += '\n';
      sentences += text.substr(first, end - first);
      --count;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return sentences;
}

std::unique_ptr<Task> make_summary_task(const Settings& settings) { return std::make_unique<SummaryTask>(settings); }

}  // namespace linnet::examples
