/// Checks that all random values use different numbers: weights, dropout of every layer and step, samples, the order
/// of a data set and its augmentation.

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include <linnet/core/device/profile.h>

using namespace linnet;

namespace {

using Key = std::pair<uint64_t, uint64_t>;  // seed and stream
using Keys = std::vector<Key>;

/// The keys of the kernels that were called from the `first` call on, forward or backward. Kernels without elements
/// draw nothing.
Keys keys_of(const Profile& profile, size_t first, bool backward) {
  Keys keys;
  for (size_t i = first; i < profile.calls().size(); ++i) {
    const KernelCall& call = profile.calls()[i];
    if (call.backward != backward || call.bytes == 0) continue;
    for (const RandomKey& key : call.keys) keys.emplace_back(key.seed, key.stream);
  }
  return keys;
}

Keys sorted(Keys keys) {
  std::ranges::sort(keys);
  return keys;
}

/// The draws of a generator, from its first to the last.
Keys all_draws(const Generator& generator) {
  Keys keys;
  for (uint64_t draw = 0; draw < generator.state().draws; ++draw) keys.emplace_back(generator.state().seed, draw);
  return keys;
}

/// Trains `model` by steps of two micro-batches each. Every draw in forward must be the generator's next, backward
/// must repeat the draws of its forward, and evaluation must draw nothing.
template <class Make, class Loss>
void check_training(const Make& make, const Loss& loss, int64_t draws_a_loss) {
  Generator rng(51);
  const Profile profile;
  const auto model = make(rng);
  CHECK(keys_of(profile, 0, false) == all_draws(rng));
  for (int micro_batch = 0; micro_batch < 4; ++micro_batch) {
    const size_t first = profile.calls().size();
    const uint64_t before = rng.state().draws;
    backward(loss(*model));
    CHECK(rng.state().draws == before + static_cast<uint64_t>(draws_a_loss));
    const Keys forward = keys_of(profile, first, false);
    CHECK(std::ssize(forward) == draws_a_loss);
    CHECK(sorted(keys_of(profile, first, true)) == sorted(forward));
  }
  CHECK(keys_of(profile, 0, false) == all_draws(rng));

  model->eval();
  const size_t first = profile.calls().size();
  backward(loss(*model));
  CHECK(keys_of(profile, first, false).empty());
  CHECK(keys_of(profile, first, true).empty());
}

/// Every mechanism with every kind of dropout, and the number of its draws.
std::vector<std::pair<nn::AttentionConfig, int64_t>> attentions() {
  std::vector<std::pair<nn::AttentionConfig, int64_t>> all = {{{.mechanism = "softmax"}, 1},
                                                              {{.mechanism = "fastformer"}, 2},
                                                              {{.mechanism = "fastmax1"}, 2},
                                                              {{.mechanism = "linear"}, 2},
                                                              {{.mechanism = "performer"}, 2}};
  for (const auto kind : {FastmaxDropout::quadratic, FastmaxDropout::standard, FastmaxDropout::token}) {
    for (const bool rotary : {false, true}) {
      all.push_back(
          {{.mechanism = "fastmax2", .rotary = rotary, .options = nn::FastmaxConfig{.dropout_kind = kind}}, 2});
    }
  }
  all.push_back(
      {{.mechanism = "fastmax2",
        .options = nn::FastmaxConfig{.form = FastmaxForm::quadratic, .dropout_kind = FastmaxDropout::token}},
       2});
  all.push_back({{.mechanism = "linformer"}, 1});
  all.push_back({{.mechanism = "longformer"}, 3});  // for windows, global tokens and their rows
  all.push_back({{.mechanism = "bigbird"}, 1});     // with so few blocks, each sees all
  all.push_back({{.mechanism = "poolingformer"}, 2});
  all.push_back({{.mechanism = "informer"}, 1});  // with so few tokens, all queries are chosen
  for (auto& [config, draws] : all) config.width = 16, config.heads = 2, config.dropout = 0.2;
  return all;
}

/// Each example is its own index; they also give the key of their batch.
class Numbers : public nn::Dataset {
 public:
  int64_t size() const override { return 97; }
  nn::Batch collate(std::span<const int64_t> indices, RandomKey key) const override {
    keys.emplace_back(key.seed, key.stream);
    order.insert(order.end(), indices.begin(), indices.end());
    return {zeros({1}), zeros({1})};
  }

  mutable std::vector<int64_t> order;
  mutable Keys keys;
};

/// The permutation by Fisher and Yates from a stream's words, as in the loader.
std::vector<int64_t> order_of(RandomKey key, int64_t size) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[(uint64_t{random_word(key, i)} * i) >> 32]);
  }
  return order;
}

/// A batch's key, made from the stream's block of that number.
Key key_of(RandomKey stream, uint64_t batch) {
  const PhiloxBlock block = philox(stream, batch);
  return {uint64_t{block.word[0]} << 32 | block.word[1], uint64_t{block.word[2]} << 32 | block.word[3]};
}

}  // namespace

TEST_CASE("random streams: each weight, and dropout of each layer and step, of DecoderLM and PatchClassifier") {
  for (const auto& [attention, draws] : attentions()) {
    CAPTURE(attention.mechanism);
    for (const bool share : {false, true}) {
      const int64_t layers = 3, draws_a_loss = 1 + layers * (2 + draws);  // of the embedding and of each block
      const nn::BlockConfig block{.attention = attention, .dropout = 0.1};
      if (nn::find_mechanism(attention.mechanism).causal) {
        const nn::DecoderConfig text{
            .vocabulary = 9, .context = 6, .layers = layers, .share_layers = share, .block = block};
        const Tensor ids = tensor<int64_t>({1, 2, 3, 4, 5, 6}).reshape({1, 6});
        check_training([&](Generator& rng) { return std::make_unique<nn::DecoderLM>(rng, text); },
                       [&](nn::DecoderLM& model) { return cross_entropy(model(ids), ids); }, draws_a_loss);
      }

      const nn::PatchClassifierConfig image{
          .side = 6, .patch = 2, .classes = 3, .layers = layers, .share_layers = share, .block = block};
      check_training([&](Generator& rng) { return std::make_unique<nn::PatchClassifier>(rng, image); },
                     [&](nn::PatchClassifier& model) { return sum(square(model(ones({2, 36})))); }, draws_a_loss);
    }
  }
}

TEST_CASE("random streams: each weight, and dropout of each layer and step, of FastformerEncoder") {
  const nn::FastformerEncoderConfig config{.width = 16, .heads = 2, .hidden = 16, .layers = 2, .max_tokens = 5};
  check_training([&](Generator& rng) { return std::make_unique<nn::FastformerEncoder>(rng, config); },
                 [&](nn::FastformerEncoder& model) { return sum(square(model(ones({2, 5, 16})))); }, 1 + 2 * 2);
}

TEST_CASE("random streams: each token that is sampled, by the generator given and not the model's") {
  Generator rng(52), samples(53);
  nn::DecoderLM model(rng, {.vocabulary = 9,
                            .context = 8,
                            .block = {.attention = {.width = 8, .heads = 2, .dropout = 0.3}, .dropout = 0.3}});
  const uint64_t before = rng.state().draws;
  const Profile profile;
  const std::array<int64_t, 2> prompt{1, 2};
  nn::generate(model, prompt, samples, {.max_new_tokens = 12});
  nn::generate(model, prompt, samples, {.max_new_tokens = 5, .top_k = 3});
  CHECK(samples.state().draws == 12 + 5);
  CHECK(keys_of(profile, 0, false) == all_draws(samples));
  CHECK(rng.state().draws == before);
}

TEST_CASE("random streams: a loader's order and its batches, of every epoch") {
  constexpr int64_t kEpochs = 5, kBatch = 10;
  constexpr uint64_t kSeed = 54;
  const Numbers data;
  nn::Loader loader(data, {.batch = kBatch, .seed = kSeed, .prefetch = 0});
  std::set<Key> batch_keys;
  std::set<uint64_t> streams;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    CAPTURE(epoch);
    data.order.clear();
    data.keys.clear();
    for (const nn::Batch& batch : loader) (void)batch;
    batch_keys.insert(data.keys.begin(), data.keys.end());
    // Which streams of the seed they are made of.
    std::optional<uint64_t> of_order, of_batches;
    for (uint64_t stream = 0; stream < 100; ++stream) {
      if (order_of({kSeed, stream}, data.size()) == data.order) of_order = stream;
      if (key_of({kSeed, stream}, 0) == data.keys.at(0)) of_batches = stream;
    }
    REQUIRE(of_order);
    REQUIRE(of_batches);
    for (size_t batch = 0; batch < data.keys.size(); ++batch) {
      CHECK(data.keys[batch] == key_of({kSeed, *of_batches}, batch));
    }
    streams.insert({*of_order, *of_batches});
  }
  CHECK(std::ssize(streams) == 2 * kEpochs);
  CHECK(std::ssize(batch_keys) == kEpochs * 10);
}

TEST_CASE("random streams: augmentation leaves the order of the examples as it is, and the order augmentation") {
  const auto images = [](int64_t shift) {
    std::vector<uint8_t> labels(200);
    std::iota(labels.begin(), labels.end(), uint8_t{0});
    nn::LabelledImages data(std::vector<uint8_t>(200 * 36, 128), labels, 6, 6);
    data.set_shift(shift);
    return data;
  };
  const auto order = [](const nn::LabelledImages& data) {
    nn::Loader loader(data, {.batch = 30, .seed = 55});
    std::vector<int64_t> all;
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (const nn::Batch& batch : loader) {
        const std::vector<int64_t> labels = batch.targets.to_vector<int64_t>();
        all.insert(all.end(), labels.begin(), labels.end());
      }
    }
    return all;
  };
  CHECK(order(images(0)) == order(images(2)));

  const auto batch_keys = [](bool shuffle) {
    const Numbers data;
    nn::Loader loader(data, {.batch = 10, .shuffle = shuffle, .seed = 55, .prefetch = 0});
    for (const nn::Batch& batch : loader) (void)batch;
    return data.keys;
  };
  CHECK(batch_keys(false) == batch_keys(true));
}

TEST_CASE("random streams: each image of a batch is shifted by itself, down apart from right") {
  std::vector<uint8_t> pixels(81, 0);
  pixels[4 * 9 + 4] = 255;  // in the middle
  nn::LabelledImages data(pixels, {0}, 9, 9);
  data.set_shift(2);
  const std::vector<int64_t> copies(400, 0);
  const Tensor batch = data.collate(copies, {56, 0}).inputs;
  std::map<int64_t, int> places;
  int repeated = 0;
  int64_t before = -1;
  for (int64_t i = 0; i < std::ssize(copies); ++i) {
    const int64_t place = argmax(batch.select(0, i), 0).item<int64_t>();
    ++places[place];
    repeated += place == before;
    before = place;
  }
  // Each of 25 about 16 times: five standard deviations are 20.
  CHECK(places.size() == 25);
  for (const auto& [place, count] : places) CHECK(count < 36);
  CHECK(repeated < 36);
}
