/// The settings of modules. A model's file contains them, and loading compares them.

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <optional>

#include <linnet/linnet.h>

#include "tests/nn/attention/attention_model.h"
#include "tests/support/files.h"

using namespace linnet;

namespace {

nn::DecoderConfig small_decoder(nn::AttentionConfig attention) {
  attention.width = 8;
  attention.heads = 2;
  return {.vocabulary = 5, .context = 6, .layers = 2, .block = {.attention = attention}};
}

/// The differences that the error of a load lists; empty without an error.
std::string refusal_of(nn::Module& model, const std::filesystem::path& path) {
  try {
    model.load(path);
  } catch (const ValueError& error) {
    const std::string text = error.what(), before = "build the model with the settings of the saved one\n";
    const size_t start = text.find(before) + before.size();
    return text.substr(start, text.rfind(" (") - start);  // where it was called
  }
  return "";
}

/// A model of one layer.
template <class Layer, class... Args>
std::unique_ptr<nn::Module> model_of(Generator& rng, const Args&... args) {
  auto model = std::make_unique<nn::Sequential>(rng);
  model->add<Layer>(args...);
  return model;
}

/// Checks that `to` refuses the state of `from`, because they differ in a setting.
void check_differs(const std::string& setting, const std::unique_ptr<nn::Module>& from,
                   const std::unique_ptr<nn::Module>& to) {
  CAPTURE(setting);
  CHECK(from->load_state(*from).settings.empty());
  CHECK_THROWS_WITH_AS(to->load_state(*from), doctest::Contains(("different: " + setting + " is ").c_str()),
                       ValueError);
}

}  // namespace

TEST_CASE("Module: a file names the model's settings, and a model with others refuses it before it copies") {
  const linnet::test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "model.safetensors";
  Generator rng(1);
  nn::DecoderLM(rng,
                small_decoder({.mechanism = "fastmax2", .options = nn::FastmaxConfig{.scale = FastmaxScale::sqrt}}))
      .save(path);

  // The reason for the comparison: fastmax2 with another scale has weights of the same names and shapes.
  nn::DecoderLM other(rng, small_decoder({.mechanism = "fastmax2"}));
  const Tensor before = other.state().at("tok.weight").clone();
  CHECK(
      refusal_of(other, path) ==
      "  different: fastmax_scale is 1 here and 0.5 there (with heads of 4: paper is 1, sqrt 0.5, unit 0.24975), in "
      "blocks.0.attention and 1 more\n");
  CHECK(allclose(other.state().at("tok.weight"), before, 0, 0));
  const nn::IncompatibleKeys keys = other.load(path, {.strict = false});
  REQUIRE(keys.settings.size() == 2);
  CHECK(keys.settings[0].name == "blocks.0.attention.fastmax_scale");
  CHECK(keys.settings[0].here == "1");
  CHECK(keys.settings[0].there == "0.5");
  CHECK(keys.settings[1].name == "blocks.1.attention.fastmax_scale");
  CHECK_FALSE(allclose(other.state().at("tok.weight"), before));

  nn::DecoderLM softmax(rng, small_decoder({}));
  CHECK(refusal_of(softmax, path) ==
        "  different: mechanism is softmax here and fastmax2 there, in blocks.0.attention and 1 more\n");

  // A change of a config that keeps all shapes, and the line of the error that reports it.
  const auto line_of = [&](const nn::DecoderConfig& config) {
    nn::DecoderLM model(rng, config);
    return refusal_of(model, path);
  };
  const nn::AttentionConfig same{.mechanism = "fastmax2", .options = nn::FastmaxConfig{.scale = FastmaxScale::sqrt}};
  nn::DecoderConfig config = small_decoder(same);
  config.block.attention.heads = 4;
  CHECK(line_of(config) ==
        "  different: heads is 4 here and 2 there, in blocks.0.attention and 1 more\n"
        "  different: fastmax_scale is 0.7071067811865475 here and 0.5 there (with heads of 2: paper is 1, sqrt "
        "0.7071067811865475, unit 0.4995), in blocks.0.attention and 1 more\n");
  config = small_decoder(same);
  config.block.pre_norm = false;
  CHECK(line_of(config) == "  different: pre_norm is false here and true there, in blocks.0 and 1 more\n");
  config = small_decoder(same);
  config.block.gelu = Gelu::tanh;
  CHECK(line_of(config) == "  different: gelu is tanh here and erf there, in blocks.0.mlp and 1 more\n");
  config = small_decoder(same);
  config.positions = nn::Positions::none;
  CHECK(line_of(config).starts_with("  different: positions is none here and learned there, in pos\n"));
  config = small_decoder(same);
  config.layers = 3;
  CHECK(line_of(config).starts_with("  different: layers is 3 here and 2 there\n  missing: blocks.2."));

  // Dropout and the form of a computation may differ, and so may the scale's name for one number.
  config = small_decoder(same);
  config.block.dropout = config.block.attention.dropout = 0.5;
  config.block.attention.options = nn::FastmaxConfig{.scale = 0.5, .form = FastmaxForm::factorised};
  CHECK(line_of(config).empty());
}

TEST_CASE("Module: every option of an attention that changes its result is a setting") {
  const linnet::test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "model.safetensors";
  Generator rng(1);
  struct Change {
    std::string setting;
    nn::AttentionConfig from, to;
  };
  const std::vector<Change> changes{
      {"causal", {}, {.causal = true}},
      {"rotary", {}, {.rotary = true}},
      {"heads", {}, {.heads = 4}},
      {"short_conv", {}, {.short_conv = 2}},
      {"interaction",
       {.mechanism = "fastformer"},
       {.mechanism = "fastformer", .options = nn::FastformerConfig{.interaction = Interaction::add}}},
      {"share_query_value",
       {.mechanism = "fastformer"},
       {.mechanism = "fastformer", .options = nn::FastformerConfig{.share_query_value = false}}},
      {"share_heads",
       {.mechanism = "fastformer"},
       {.mechanism = "fastformer", .options = nn::FastformerConfig{.share_heads = true}}},
      {"full_logits",
       {.mechanism = "fastformer"},
       {.mechanism = "fastformer", .options = nn::FastformerConfig{.full_logits = true}}},
      {"projections",
       {.mechanism = "fastformer"},
       {.mechanism = "fastformer", .options = nn::FastformerConfig{.projections = 4}}},
      {"window",
       {.mechanism = "longformer"},
       {.mechanism = "longformer", .options = nn::LongformerConfig{.window = 8}}},
      {"dilation",
       {.mechanism = "longformer"},
       {.mechanism = "longformer", .options = nn::LongformerConfig{.dilation = {2}}}},
      {"dilation",
       {.mechanism = "longformer"},
       {.mechanism = "longformer", .options = nn::LongformerConfig{.dilation = {1, 2}}}},
      {"global_tokens",
       {.mechanism = "longformer"},
       {.mechanism = "longformer", .options = nn::LongformerConfig{.global_tokens = 2}}},
      {"block", {.mechanism = "bigbird"}, {.mechanism = "bigbird", .options = nn::BigBirdConfig{.block = 8}}},
      {"random_blocks",
       {.mechanism = "bigbird"},
       {.mechanism = "bigbird", .options = nn::BigBirdConfig{.random_blocks = 2}}},
      {"window",
       {.mechanism = "poolingformer"},
       {.mechanism = "poolingformer", .options = nn::PoolingformerConfig{.window = 8}}},
      {"window2",
       {.mechanism = "poolingformer"},
       {.mechanism = "poolingformer", .options = nn::PoolingformerConfig{.window2 = 8}}},
      {"pooling",
       {.mechanism = "poolingformer", .options = nn::PoolingformerConfig{.pooling = TokenPooling::Kind::mean}},
       {.mechanism = "poolingformer", .options = nn::PoolingformerConfig{.pooling = TokenPooling::Kind::max}}},
      {"kernel",
       {.mechanism = "poolingformer", .options = nn::PoolingformerConfig{.pooling = TokenPooling::Kind::mean}},
       {.mechanism = "poolingformer",
        .options = nn::PoolingformerConfig{.pooling = TokenPooling::Kind::mean, .kernel = 3}}},
      {"stride",
       {.mechanism = "poolingformer"},
       {.mechanism = "poolingformer", .options = nn::PoolingformerConfig{.stride = 2}}},
      {"hashes", {.mechanism = "reformer"}, {.mechanism = "reformer", .options = nn::ReformerConfig{.hashes = 2}}},
      {"chunk", {.mechanism = "reformer"}, {.mechanism = "reformer", .options = nn::ReformerConfig{.chunk = 8}}},
      {"scale", {.mechanism = "reformer"}, {.mechanism = "reformer", .options = nn::ReformerConfig{.scale = 0.5}}},
      {"released",
       {.mechanism = "reformer"},
       {.mechanism = "reformer", .options = nn::ReformerConfig{.released = true}}},
      {"informer_factor",
       {.mechanism = "informer"},
       {.mechanism = "informer", .options = nn::InformerConfig{.factor = 3}}},
      {"informer_queries",
       {.mechanism = "informer"},
       {.mechanism = "informer", .options = nn::InformerConfig{.queries = 3}}},
      {"fastmax_scale",
       {.mechanism = "fastmax1"},
       {.mechanism = "fastmax1", .options = nn::FastmaxConfig{.scale = 0.1}}},
      {"fastmax_scale",
       {.mechanism = "fastmax2"},
       {.mechanism = "fastmax2", .options = nn::FastmaxConfig{.scale = FastmaxScale::sqrt}}},
      // These change the shape of a tensor.
      {"attention.omega",
       {.mechanism = "performer"},
       {.mechanism = "performer", .options = nn::PerformerConfig{.features = 8}}},
      {"attention.e",
       {.mechanism = "linformer"},
       {.mechanism = "linformer", .options = nn::LinformerConfig{.rank = 8}}},
  };
  for (const auto& [setting, from, to] : changes) {
    const auto build = [&](nn::AttentionConfig config) {
      config.width = 8;
      if (config.heads == 1) config.heads = 2;
      return std::make_unique<linnet::test::AttentionModel>(rng, config);
    };
    build(from)->save(path);
    CHECK(refusal_of(*build(from), path).empty());
    CHECK_MESSAGE(refusal_of(*build(to), path).find("different: " + setting + " is ") != std::string::npos,
                  from.mechanism, ": ", setting);
  }
}

TEST_CASE("Module: every option of a layer that changes its result is a setting, and so is share_layers") {
  Generator rng(1);
  const auto conv1d = [&](const nn::Conv1dConfig& config) { return model_of<nn::Conv1d>(rng, 4, 4, 3, config); };
  check_differs("stride", conv1d({}), conv1d({.stride = 2}));
  check_differs("padding", conv1d({}), conv1d({.padding = 1}));
  check_differs("padding", conv1d({}), conv1d({.padding = "same"}));
  check_differs("dilation", conv1d({}), conv1d({.dilation = 2}));
  check_differs("groups", conv1d({}), conv1d({.groups = 2}));
  const auto conv2d = [&](const nn::Conv2dConfig& config) { return model_of<nn::Conv2d>(rng, 4, 4, 3, config); };
  check_differs("stride", conv2d({}), conv2d({.stride = {1, 2}}));
  check_differs("padding", conv2d({}), conv2d({.padding = {1, 0}}));
  check_differs("padding", conv2d({}), conv2d({.padding = "same"}));
  check_differs("dilation", conv2d({}), conv2d({.dilation = {2, 1}}));
  check_differs("groups", conv2d({}), conv2d({.groups = 2}));
  const auto transposed = [&](const nn::ConvTranspose2dConfig& config) {
    return model_of<nn::ConvTranspose2d>(rng, 4, 4, 3, config);
  };
  check_differs("stride", transposed({}), transposed({.stride = {1, 2}}));
  check_differs("padding", transposed({}), transposed({.padding = {1, 0}}));
  check_differs("output_padding", transposed({.stride = 2}), transposed({.stride = 2, .output_padding = {0, 1}}));
  check_differs("groups", transposed({}), transposed({.groups = 2}));
  check_differs("dilation", transposed({}), transposed({.dilation = {2, 1}}));

  const auto layer_norm = [&](double eps) {
    return model_of<nn::LayerNorm>(rng, 4, nn::LayerNormConfig{.eps = eps});
  };
  check_differs("eps", layer_norm(1e-5), layer_norm(1e-6));
  check_differs("eps", model_of<nn::RMSNorm>(rng, 4, 1e-5), model_of<nn::RMSNorm>(rng, 4, 1e-6));
  const auto batch_norm = [&](double eps) {
    return model_of<nn::BatchNorm1d>(rng, 4, nn::BatchNormConfig{.eps = eps});
  };
  check_differs("eps", batch_norm(1e-5), batch_norm(1e-6));
  const auto group_norm = [&](int64_t groups, double eps) {
    return model_of<nn::GroupNorm>(rng, groups, 4, nn::GroupNormConfig{.eps = eps});
  };
  check_differs("eps", group_norm(2, 1e-5), group_norm(2, 1e-6));
  check_differs("num_groups", group_norm(2, 1e-5), group_norm(4, 1e-5));

  const auto images = [&](bool share_layers) -> std::unique_ptr<nn::Module> {
    return std::make_unique<nn::PatchClassifier>(
        rng, nn::PatchClassifierConfig{
                 .side = 8, .share_layers = share_layers, .block = {.attention = {.width = 8, .heads = 2}}});
  };
  check_differs("share_layers", images(false), images(true));
}

TEST_CASE("Module: load_state of a module compares settings, as load of a file does") {
  Generator rng(1);
  const nn::DecoderLM from(
      rng, small_decoder({.mechanism = "fastmax2", .options = nn::FastmaxConfig{.scale = FastmaxScale::sqrt}}));
  nn::DecoderLM to(rng, small_decoder({.mechanism = "fastmax2"}));
  CHECK_THROWS_WITH_AS(
      to.load_state(from),
      doctest::Contains("load_state: the other module does not fit the model; build the model with the "
                        "settings of the saved one\n  different: fastmax_scale is 1 here and 0.5 there"),
      ValueError);
  CHECK(to.load_state(from, {.strict = false}).settings.size() == 2);
  CHECK(allclose(to.state().at("tok.weight"), from.state().at("tok.weight"), 0, 0));
  nn::DecoderLM same(
      rng, small_decoder({.mechanism = "fastmax2", .options = nn::FastmaxConfig{.scale = FastmaxScale::sqrt}}));
  CHECK(same.load_state(from).settings.empty());
}

TEST_CASE("Module: without learned positions, weights load into a model for longer texts") {
  const linnet::test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "model.safetensors";
  Generator rng(1);
  const Tensor ids = arange(8).reshape({2, 4}) % 5;
  const nn::BlockConfig block{.attention = {.width = 8, .heads = 2}};
  const auto decoder = [&](nn::Positions positions, int64_t tokens) {
    return nn::DecoderLM(rng, {.vocabulary = 5, .context = tokens, .block = block, .positions = positions});
  };
  const auto encoder_decoder = [&](nn::Positions positions, int64_t tokens) {
    return nn::EncoderDecoder(rng, {.vocabulary = 5,
                                    .source_tokens = tokens,
                                    .target_tokens = tokens + 1,
                                    .block = block,
                                    .positions = positions});
  };
  const auto classifier = [&](nn::SequenceClassifierConfig config, int64_t tokens) {
    config.vocabulary = 5;
    config.max_tokens = tokens;
    return nn::SequenceClassifier(rng, config);
  };
  const nn::Positions learned = nn::Positions::learned;
  for (const auto positions : {nn::Positions::sinusoidal, nn::Positions::rotary, nn::Positions::none}) {
    CAPTURE(static_cast<int>(positions));
    nn::DecoderLM text = decoder(positions, 4), longer_text = decoder(positions, 9);
    text.save(path);
    CHECK(refusal_of(longer_text, path).empty());
    CHECK(allclose(longer_text(ids), text(ids), 0, 0));

    nn::EncoderDecoder pair = encoder_decoder(positions, 4), longer_pair = encoder_decoder(positions, 9);
    pair.save(path);
    CHECK(refusal_of(longer_pair, path).empty());
    CHECK(allclose(longer_pair(ids, {}, ids), pair(ids, {}, ids), 0, 0));

    const nn::SequenceClassifierConfig config{.block = block, .positions = positions};
    nn::SequenceClassifier classes = classifier(config, 4), longer_classes = classifier(config, 9);
    classes.save(path);
    CHECK(refusal_of(longer_classes, path).empty());
    CHECK(allclose(longer_classes(ids), classes(ids), 0, 0));
  }

  // Where a length changes results or shapes, another one is refused.
  decoder(learned, 4).save(path);
  nn::DecoderLM text = decoder(learned, 9);
  CHECK(refusal_of(text, path) ==
        "  different: context is 9 here and 4 there\n"
        "  different: pos.weight is [9, 8] float32 here and [4, 8] float32 there\n");
  encoder_decoder(learned, 4).save(path);
  nn::EncoderDecoder pair = encoder_decoder(learned, 9);
  CHECK(refusal_of(pair, path)
            .starts_with("  different: source_tokens is 9 here and 4 there\n"
                         "  different: target_tokens is 10 here and 5 there\n"));
  const auto refusal_of_longer = [&](const nn::SequenceClassifierConfig& config) {
    classifier(config, 4).save(path);
    nn::SequenceClassifier longer = classifier(config, 9);
    return refusal_of(longer, path);
  };
  CHECK(refusal_of_longer({.block = block}).starts_with("  different: max_tokens is 9 here and 4 there\n"));
  CHECK(
      refusal_of_longer({.block = block, .positions = nn::Positions::rotary, .pooling = nn::Pooling::padded_mean}) ==
      "  different: max_tokens is 9 here and 4 there\n");
  nn::BlockConfig linformer = block;
  linformer.attention.mechanism = "linformer";
  linformer.attention.options = nn::LinformerConfig{.rank = 2};
  CHECK(refusal_of_longer({.block = linformer, .positions = nn::Positions::none})
            .find(" is [2, 9] float32 here and [2, 4] float32 there\n") != std::string::npos);
}

TEST_CASE("Setting: numbers and bools, with the digits that tell them apart") {
  const auto text = [](const auto& value) { return nn::Setting("name", value).value; };
  CHECK(text(true) == "true");
  CHECK(text(4) == "4");
  CHECK(text(int64_t{1} << 53) == "9007199254740992");
  CHECK(text(uint8_t{200}) == "200");
  CHECK(text(int8_t{-3}) == "-3");
  CHECK(text('a') == "97");
  CHECK(text(uint64_t{18446744073709551615U}) == "18446744073709551615");
  static_assert(!std::is_constructible_v<nn::Setting, std::string, long double>);  // its digits would be cut off
  CHECK(text(1e-7) == "1e-07");
  CHECK(text(0.1f) == "0.1");
  CHECK(text(0.1) == "0.1");
  CHECK(text(std::nextafter(0.1, 1)) == "0.10000000000000002");
  CHECK(text("gelu") == "gelu");
  CHECK_FALSE(nn::Setting("rate", 0.5).may_differ);
  CHECK(nn::Setting("rate", 0.5, /*may_differ=*/true).may_differ);
}

TEST_CASE("Module: files without settings, or with those of another version, load") {
  const linnet::test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "model.safetensors";
  Generator rng(1);
  nn::DecoderLM model(rng, small_decoder({}));
  model.save(path, {{"made", "by a test"}});
  const Safetensors saved = read_safetensors(path);
  CHECK(saved.metadata.at("made") == "by a test");
  CHECK(saved.metadata.at("linnet.settings.blocks.1.attention.heads") == "2");

  const auto load_with = [&](const std::map<std::string, std::string>& metadata) {
    write_safetensors(path, {.tensors = saved.tensors, .metadata = metadata});
    return refusal_of(model, path);
  };
  CHECK(load_with({}).empty());
  CHECK(load_with({{"linnet.settings.pos.reach", "4"}}).empty());
  CHECK(load_with({{"linnet.settings.pos.positions", "4"}}) ==
        "  different: positions is learned here and 4 there, in pos\n");
}
