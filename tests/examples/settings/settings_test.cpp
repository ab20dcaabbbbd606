#include "support/settings/settings.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include <linnet/linnet.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "support/run/compare.h"
#include "support/run/train_program.h"
#include "support/settings/program.h"
#include "support/tasks/task.h"
#include "tests/support/files.h"
#include "tests/support/quiet.h"
#include "tests/support/registered_mechanism.h"

namespace linnet::examples {
namespace {

/// The error of validate for a preset after `change`; empty if it accepts the settings.
template <class Change>
std::string refusal(const Settings& from, Change&& change) {
  Settings settings = from;
  change(settings);
  try {
    validate(settings);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("presets: the published settings, each valid as it is") {
  const Settings cpu = preset("shakespeare", "nanogpt-cpu");
  CHECK(cpu.layers == 4);
  CHECK(cpu.heads == 4);
  CHECK(cpu.width == 128);
  CHECK(cpu.context == 64);
  CHECK(cpu.batch == 12);
  CHECK(cpu.steps == 2000);
  CHECK(cpu.warmup == 100);
  CHECK(cpu.beta2 == 0.99);
  const Settings gpu = preset("shakespeare", "nanogpt-gpu");
  CHECK(gpu.layers == 6);
  CHECK(gpu.width == 384);
  CHECK(gpu.dropout == 0.2);
  const Settings mnist = preset("mnist", "mnist-small");
  CHECK(mnist.heads == 4);
  CHECK(mnist.width == 96);
  CHECK(mnist.feed_forward == 2);
  CHECK(mnist.batch == 128);
  CHECK(mnist.epochs == 10);
  CHECK(mnist.warmup == 0);
  for (const Settings& settings : {cpu, gpu, mnist}) {
    for (const nn::Mechanism& mechanism : nn::mechanisms()) {
      if (settings.task != "mnist" && !mechanism.causal) continue;
      CHECK(refusal(settings, [&](Settings& s) { s.attention = mechanism.name; }) == "");
    }
  }
  CHECK_THROWS_WITH_AS(preset("mnist", "nanogpt-cpu"), doctest::Contains("the presets for mnist are mnist-small"),
                       UsageError);
}

TEST_CASE("a run is named by its preset, what differs from it, and its steps") {
  Settings settings = preset("shakespeare", "nanogpt-cpu");
  CHECK(describe(settings) == "preset nanogpt-cpu, 2000 steps");
  settings.attention = "fastmax2";  // its defaults do not count as differences
  settings.steps = 40;
  settings.warmup = 4;  // follows from fewer steps
  settings.layers = 2;
  settings.context = 32;
  settings.options["fastmax_scale"] = "paper";
  settings.seed = 7;
  settings.eval_every = 1;
  CHECK(describe(settings) == "preset nanogpt-cpu, context 32, fastmax scale paper, layers 2, 40 steps");
  settings = preset("mnist", "mnist-small");
  CHECK(describe(settings) == "preset mnist-small, 10 epochs");
  settings.epochs = 1;
  CHECK(describe(settings) == "preset mnist-small, 1 epoch");
}

TEST_CASE("models are of bfloat16 where --precision says so, and else of float32") {
  Settings settings = preset("mnist", "mnist-small");
  CHECK(model_dtype(settings) == DType::float32);
  settings.precision = "tf32";
  CHECK(model_dtype(settings) == DType::float32);
  settings.precision = "bfloat16";
  CHECK(model_dtype(settings) == DType::bfloat16);
}

TEST_CASE("config.json gives back all settings that it holds") {
  Settings settings = preset("mnist", "mnist-small");
  settings.attention = "fastmax2";
  settings.options["fastmax_scale"] = "0.25";
  settings.options["fastmax_form"] = "factorised";
  settings.options["dropout_kind"] = "token";
  settings.options["dropout_normaliser"] = "shared";
  settings.attention_dropout = 0.1;
  settings.lr = 0.1 + 0.2;
  settings.seed = 18446744073709551615U;
  settings.device = "cuda";
  const nlohmann::json json = to_json(settings);
  const Settings again = settings_from_json(nlohmann::json::parse(json.dump()));
  CHECK(to_json(again) == json);
  CHECK(again.lr == settings.lr);
  CHECK(again.seed == settings.seed);
  CHECK(again.options == settings.options);
  CHECK(settings_from_json(to_json(preset("mnist", "mnist-small"))).options.empty());

  for (const auto& [name, value] : json.items()) {
    CAPTURE(name);
    nlohmann::json wrong = json;
    wrong[name] = nlohmann::json::object();
    CHECK_THROWS_AS(settings_from_json(wrong), nlohmann::json::exception);
    if (!value.is_number_integer()) continue;
    for (const char* number : {"2.5", "7.77778e+33", "-18446744073709551615"}) {
      wrong[name] = nlohmann::json::parse(number);
      CHECK_THROWS_WITH_AS(settings_from_json(wrong), doctest::Contains("where a whole number is needed"),
                           nlohmann::json::exception);
    }
  }
}

TEST_CASE("config.json holds the value of every flag of a trainer, or the flag decides nothing that a run computes") {
  const std::set<std::string> others{"help", "version", "threads", "data", "shard_optimizer"};
  std::set<std::string> of_mechanisms;  // which hold their options under these names
  for (const auto& mechanism : linnet::nn::mechanisms()) {
    for (const auto& option : mechanism.option_list) of_mechanisms.insert(option.name);
  }
  for (const std::string& task : task_names()) {
    CAPTURE(task);
    Settings settings = preset(task, preset_names(task).front());
    const nlohmann::json json = to_json(settings);
    CLI::App app;
    add_common_flags(app, settings);
    add_attention_flags(app, settings);
    add_model_flags(app, settings);
    add_training_flags(app, settings);
    CHECK(app.get_options().size() > 30);
    for (const CLI::Option* option : app.get_options()) {
      std::string name = option->get_single_name();
      std::ranges::replace(name, '-', '_');
      CHECK_MESSAGE((json.contains(name) || others.contains(name) || of_mechanisms.contains(name)), name);
    }
  }
}

TEST_CASE("config.json of another version: what it lacks has its default, what is not known is refused") {
  const nlohmann::json json = to_json(preset("mnist", "mnist-small")), defaults = to_json(Settings{});
  for (const auto& [name, value] : json.items()) {
    CAPTURE(name);
    nlohmann::json older = json;
    older.erase(name);
    if (name == "task") {
      CHECK_THROWS_AS(settings_from_json(older), nlohmann::json::exception);
    } else {
      CHECK(to_json(settings_from_json(older)).at(name) == defaults.at(name));
    }
  }
  nlohmann::json newer = json;
  newer["depth"] = 3;
  CHECK_THROWS_WITH_AS(settings_from_json(newer), R"(this version does not know the setting {"depth":3})",
                       UsageError);
}

TEST_CASE("config.json of an older version: Fastformer's defaults, which every file held, are as if not said") {
  const nlohmann::json defaults{{"fastformer_interaction", "product"}, {"share", {"query-value"}}, {"columns", 3}};
  for (const std::string& attention : linnet::nn::causal_mechanisms()) {
    CAPTURE(attention);
    Settings settings = preset("shakespeare", "nanogpt-cpu");
    settings.attention = attention;
    nlohmann::json older = to_json(settings);
    older.update(defaults);
    for (const char* name : {"fastmax_scale", "fastmax_form", "projections"}) older.erase(name);  // as in old files
    const Settings read = settings_from_json(older);
    validate(read);
    CHECK(to_json(read) == to_json(settings));  // what --resume compares
    settings.share = {"layers"};
    older["share"] = attention == "fastformer" ? nlohmann::json{"layers"} : nlohmann::json{"query-value", "layers"};
    CHECK(to_json(settings_from_json(older)) == to_json(settings));
  }
}

TEST_CASE("config.json of an older version: an option under its older name") {
  Settings settings = preset("shakespeare", "nanogpt-cpu");
  settings.attention = "fastformer", settings.options["projections"] = "5";
  nlohmann::json older = to_json(settings);
  CHECK(older["projections"] == 5);
  older.erase("projections"), older["columns"] = 5;
  CHECK(to_json(settings_from_json(older)) == to_json(settings));
  older["columns"] = "five";
  CHECK_THROWS_WITH(settings_from_json(older), doctest::Contains("columns"));
  older["columns"] = 5, older["attention"] = "softmax";
  CHECK_THROWS_WITH_AS(validate(settings_from_json(older)),
                       doctest::Contains("--projections 5 does not apply to --attention softmax"), UsageError);
}

TEST_CASE("text programs refuse a mechanism without a causal form before they write anything") {
  const linnet::test::RegisteredMechanism whole(
      {.name = "whole", .make = linnet::nn::maker<linnet::nn::SoftmaxAttention>(), .causal = false});
  const std::string message =
      "--attention whole has no causal form, which texts need; choose one of softmax, fastmax1, fastmax2, "
      "fastformer, "
      "linear, performer, longformer, poolingformer, reformer";
  const auto set = [](Settings& s) { s.attention = "whole"; };
  CHECK(refusal(preset("shakespeare", "nanogpt-cpu"), set) == message);
  CHECK(refusal(preset("mnist", "mnist-small"), set).empty());

  const linnet::test::Quiet no_errors(STDERR_FILENO);
  const linnet::test::TemporaryFolder folder;
  const auto exit_code = [&](const auto& program, std::vector<std::string> words) {
    words.insert(words.end(), {"--out", folder / "run", "--steps", "2"});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    const int code = program(static_cast<int>(argv.size()), argv.data());
    CHECK_FALSE(std::filesystem::exists(folder / "run"));
    return code;
  };
  const auto train = [](int argc, char** argv) {
    return train_program(argc, argv, {.name = "train_text", .tasks = {"shakespeare"}, .description = ""});
  };
  const auto compare = [](int argc, char** argv) { return compare_program(argc, argv, {.name = "compare"}); };
  CHECK(exit_code(train, {"train_text", "--attention", "whole"}) == 2);
  CHECK(exit_code(compare, {"compare", "--task", "shakespeare", "--attention", "softmax,whole"}) == 2);
}

TEST_CASE("config.json: a default made explicit is no other run") {
  Settings plain = preset("shakespeare", "nanogpt-cpu"), explicit_one = plain;
  plain.attention = explicit_one.attention = "fastformer";
  explicit_one.share = {"query-value"}, explicit_one.options["projections"] = "3",
  explicit_one.options["fastformer_interaction"] = "product";
  CHECK(to_json(plain) == to_json(explicit_one));
  plain.attention = explicit_one.attention = "fastmax1";
  explicit_one.share.reset(), explicit_one.options.erase("projections"),
      explicit_one.options.erase("fastformer_interaction");
  plain.attention_dropout = explicit_one.attention_dropout = 0.1;
  explicit_one.options["dropout_kind"] = "standard", explicit_one.options["fastmax_scale"] = "unit";
  CHECK(to_json(plain) == to_json(explicit_one));
}

TEST_CASE("config.json has the whole path of word vectors, so that a run can be resumed from any folder") {
  Settings s = preset("own-texts", "classify-own-texts");
  s.texts.glove = "vectors/../v.txt";
  CHECK(to_json(s)["glove"] == (std::filesystem::current_path() / "v.txt").string());
  s.texts.glove = "";
  CHECK(to_json(s)["glove"] == "");
}

TEST_CASE("validate: every word is one of those that are known, and so is every number in its range") {
  nlohmann::json json = to_json(preset("shakespeare", "nanogpt-cpu"));
  json.update({{"attention", "fastmax2"}, {"attention_dropout", 0.1}});
  const auto refused = [&](nlohmann::json changes, const char* because) {
    nlohmann::json wrong = json;
    wrong.update(changes);
    CAPTURE(because);
    CHECK_THROWS_WITH_AS(validate(settings_from_json(wrong)), doctest::Contains(because), UsageError);
  };
  refused({{"positions", "lernd"}}, "--positions lernd: must be one of learned, sinusoidal, rotary, none");
  refused({{"fastmax_form", "cubic"}}, "--fastmax-form cubic: must be one of auto, quadratic, factorised");
  refused({{"fastmax_scale", "big"}}, "--fastmax-scale big: must be paper, sqrt, unit or a positive number");
  refused({{"dropout_kind", "some"}}, "--dropout-kind some: must be one of quadratic, standard, token");
  refused({{"dropout_normaliser", "dirty"}}, "--dropout-normaliser dirty: must be one of clean, shared");
  refused({{"attention", "fastformer"}, {"fastformer_interaction", "divide"}},
          "--fastformer-interaction divide: must be one of product, add, concat");
  refused({{"attention", "hardmax"}}, "--attention hardmax: must be one of softmax, ");
  refused({{"share", {"everything"}}}, "--share everything: must be one of layers, query-value, heads, none");
  refused({{"schedule", "square"}}, "--schedule square: must be one of cosine, one-cycle, one-cycle-linear");
  refused({{"device", "tpu"}}, "--device tpu: must be one of cpu, cuda");
  refused({{"task", "poetry"}}, "--task poetry: must be one of shakespeare, mnist, listops, ");
  refused({{"feed_forward", -4}}, "feed_forward -4: must be from 1 to 1000");
}

TEST_CASE("block_config: what fastmax drops where nothing is said") {
  Settings settings = preset("shakespeare", "nanogpt-cpu");
  settings.attention_dropout = 0.1;
  const auto kind = [&](const char* attention) {
    settings.attention = attention;
    return std::any_cast<nn::FastmaxConfig>(block_config(settings).attention.options).dropout_kind;
  };
  CHECK(kind("fastmax2") == FastmaxDropout::quadratic);
  CHECK(kind("fastmax1") == FastmaxDropout::standard);
  settings.attention = "softmax";
  CHECK_FALSE(block_config(settings).attention.options.has_value());
}

TEST_CASE("validate: the ends of every range") {
  const Settings text = preset("shakespeare", "nanogpt-cpu");
  const Settings images = preset("mnist", "mnist-small");
  CHECK(refusal(text, [](Settings& s) { s.steps = 101; }) == "");
  CHECK(refusal(text, [](Settings& s) { s.steps = 100; }) ==
        "--warmup 100 leaves nothing of --steps 100; make it shorter");
  CHECK(refusal(images, [](Settings& s) { s.epochs = 0; }) == "--steps 0: must be at least 1");
  CHECK(refusal(text, [](Settings& s) { s.dropout = 0.99; }) == "");
  CHECK(refusal(text, [](Settings& s) { s.dropout = 0.991; }) == "--dropout 0.991: must lie from 0 to 0.99");
  CHECK(refusal(text, [](Settings& s) { s.dropout = -0.1; }) == "--dropout -0.1: must lie from 0 to 0.99");
  CHECK(refusal(text, [](Settings& s) { s.lr = s.min_lr; }) == "");
  CHECK(refusal(text, [](Settings& s) { s.lr = 0.5 * s.min_lr; }) ==
        "--min-lr 0.0001 is above --lr 5e-05; lower it too");
  CHECK(refusal(text, [](Settings& s) { s.width = 130; }) == "--width 130 is not a multiple of --heads 4");
  CHECK(refusal(images, [](Settings& s) { s.patch = 0; }) == "--patch 0: must be at least 1");
  CHECK(refusal(text, [](Settings& s) { s.options["fastmax_scale"] = "sqrt"; }) ==
        "--fastmax-scale sqrt does not apply to --attention softmax");
  CHECK(refusal(text, [](Settings& s) { s.positions = "rotary"; }) == "");
  CHECK(refusal(text, [](Settings& s) {
          s.positions = "rotary";
          s.attention = "fastmax1";
        }) == "--positions rotary does not apply to --attention fastmax1");
  const auto drop_quadratic = [](Settings& s) {
    s.attention = "fastmax1";
    s.attention_dropout = 0.1;
    s.options["dropout_kind"] = "quadratic";
  };
  CHECK(refusal(text, drop_quadratic) ==
        "--dropout-kind quadratic does not apply to --attention fastmax1, which has no quadratic features; use "
        "standard or token");
  CHECK(refusal(text, [](Settings& s) { s.share = {"none"}; }) == "");  // sharing of layers, which all have
  CHECK(refusal(text, [](Settings& s) { s.share = {"layers"}; }) == "");
}

TEST_CASE("validate: a scale with which fastmax1's weights can be 0 or less, and one that no score bears") {
  const Settings text = preset("shakespeare", "nanogpt-cpu");  // heads of 32
  const auto said = [&](const char* attention, const char* scale) {
    return refusal(text, [&](Settings& s) {
      s.attention = attention;
      s.options["fastmax_scale"] = scale;
    });
  };
  CHECK(said("fastmax1", "sqrt") ==
        "--fastmax-scale sqrt does not apply to --attention fastmax1, whose weights are positive only with a scale "
        "below 1/32, the width of a head; use unit, a smaller number, or fastmax2");
  for (const char* scale : {"paper", "0.03125", "1", "1e300"}) {
    CAPTURE(scale);
    CHECK(said("fastmax1", scale).starts_with("--fastmax-scale " + std::string(scale)));
  }
  for (const char* scale : {"unit", "0.03124"}) CHECK(said("fastmax1", scale) == "");
  for (const char* scale : {"paper", "sqrt", "unit", "1", "1000000"}) CHECK(said("fastmax2", scale) == "");
  CHECK(said("fastmax2", "1e300") ==
        "--fastmax-scale 1e300 does not apply to --attention fastmax2, which takes 1000000 at most");
  CHECK(said("fastmax2", "1000001") ==
        "--fastmax-scale 1000001 does not apply to --attention fastmax2, which takes 1000000 at most");
  CHECK(said("fastmax2", "big") == "--fastmax-scale big: must be paper, sqrt, unit or a positive number");
}

TEST_CASE("block_config: the scale of fastmax, by name, by number, and by order where nothing is said") {
  const auto scale = [](const char* attention, std::optional<std::string> text) {
    Settings settings = preset("shakespeare", "nanogpt-cpu");
    settings.attention = attention;
    if (text) settings.options["fastmax_scale"] = *text;
    return std::any_cast<nn::FastmaxConfig>(block_config(settings).attention.options).scale;
  };
  using Scale = std::variant<FastmaxScale, double>;
  CHECK((scale("fastmax2", std::nullopt) == Scale(FastmaxScale::sqrt)));
  CHECK((scale("fastmax1", std::nullopt) == Scale(FastmaxScale::unit)));
  CHECK((scale("fastmax2", "paper") == Scale(FastmaxScale::paper)));
  CHECK((scale("fastmax2", "0.125") == Scale(0.125)));
  for (const char* wrong : {"", "root", "0", "-1", "nan", "1x"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS(scale("fastmax2", wrong),
                         doctest::Contains("must be paper, sqrt, unit or a positive number"), UsageError);
  }
}

TEST_CASE("one_line: the items of a list become parts of a sentence") {
  CHECK(one_line("a does not fit\n  missing: x\n   unexpected: y\n") == "a does not fit; missing: x; unexpected: y");
  CHECK(one_line("a\nb\n c\n\n  d  e\n  ") == "ab c; d  e; ");
  CHECK(one_line("") == "");
  const std::string spaces(1'000'000, ' ');
  CHECK(one_line("a\n" + spaces + "b" + spaces) == "a; b" + spaces);
  CHECK(one_line(std::string(1'000'000, '\n') + "  a") == "; a");
}

TEST_CASE("command_line: words that a shell would change stand in quotes") {
  CHECK(command_line({"sample", "out/x", "--prompt", "to be", "it's", ""}) ==
        "sample out/x --prompt 'to be' 'it'\\''s' ''");
}

}  // namespace linnet::examples
