/// The options of a decoder's mechanisms in summarise: defaults, flags, config.json and refusals.

#include <doctest/doctest.h>

#include <linnet/linnet.h>
#include <nlohmann/json.hpp>

#include "support/settings/program.h"
#include "support/settings/settings.h"
#include "support/summaries/summary_task.h"
#include "tests/examples/run/tiny_run.h"

using namespace linnet;
using namespace linnet::examples;
using namespace linnet::examples::test;
using linnet::test::read_bytes;
using linnet::test::run_program;

namespace {

Settings letters(const std::string& encoder, const std::string& decoder, const std::string& cross = "softmax") {
  Settings s = preset("sort", "summarise-sort");
  s.attention = encoder;
  s.summary.decoder_attention = decoder;
  s.summary.cross = cross;
  return s;
}

template <class Options>
Options decoder_of(const Settings& s) {
  return std::any_cast<Options>(summary_model_config(s, 55).decoder.options);
}

}  // namespace

TEST_CASE("summarise: decoder and cross-attention have their own defaults, and the flags that they know") {
  Settings s = letters("fastmax2", "fastmax1", "linformer");
  validate(s);
  CHECK(decoder_of<nn::FastmaxConfig>(s).scale == std::variant<FastmaxScale, double>(FastmaxScale::unit));
  s = letters("softmax", "longformer", "linformer");
  s.options = {{"window", "6"}, {"linformer_rank", "5"}};
  validate(s);
  const nn::EncoderDecoderConfig config = summary_model_config(s, 55);
  CHECK(std::any_cast<nn::LongformerConfig>(config.decoder.options).window == 6);
  CHECK(std::any_cast<nn::LinformerConfig>(config.cross.options).rank == 5);
  CHECK_FALSE(config.block.attention.options.has_value());
  s = preset("pubmed", "summarise-pubmed");
  s.summary.decoder_attention = "longformer";
  s = settings_of(s.attention, s);
  CHECK(decoder_of<nn::LongformerConfig>(s).window == 64);
}

TEST_CASE("summarise: config.json has the options of every mechanism of the model, and gives them back") {
  Settings s = letters("fastmax2", "fastmax1", "fastformer");
  s.options = {{"fastmax_form", "factorised"}, {"projections", "4"}};
  const nlohmann::json json = to_json(s);
  CHECK(json["fastmax_scale"] == "sqrt");
  CHECK(json["decoder_fastmax_scale"] == "unit");
  CHECK(json["decoder_fastmax_form"] == "factorised");
  CHECK(json["cross_projections"] == 4);
  CHECK_FALSE(json.contains("projections"));
  const Settings again = settings_from_json(nlohmann::json::parse(json.dump()));
  validate(again);
  CHECK(to_json(again) == json);
  CHECK(decoder_of<nn::FastmaxConfig>(again).scale == std::variant<FastmaxScale, double>(FastmaxScale::unit));
  CHECK(describe_model(s) ==
        "preset summarise-sort, cross fastformer, cross projections 4, decoder attention fastmax1, "
        "decoder fastmax form factorised, fastmax form factorised");
  const nlohmann::json same = to_json(letters("fastmax1", "fastmax1", "fastmax1"));  // which share their options
  CHECK_FALSE(same.contains("decoder_fastmax_scale"));
}

TEST_CASE("summarise: options of a decoder's mechanisms that cannot be") {
  const Workshop shop;
  const auto refused = [&](const Arguments& flags, const std::string& part) {
    check_refused(run_program("summarise", Arguments{"--task", "sort", "--out", shop / "run"} + flags), 2, part);
    CHECK_FALSE(std::filesystem::exists(shop / "run"));
  };
  refused({"--decoder-attention", "linformer"},
          "--decoder-attention linformer has no causal form (each of its slots mixes all tokens), which texts need");
  refused({"--decoder-attention", "longformer", "--window", "7"},
          "--window 7 does not apply to --decoder-attention longformer, half of which is on each side");
  refused(
      {"--cross", "linformer", "--linformer-rank", "21"},
      "--linformer-rank 21 does not apply to --cross linformer, whose rank is at most the 20 tokens of the model");
  refused({"--decoder-attention", "longformer", "--hashes", "2"}, "--hashes 2 does not apply to --attention softmax");
}

TEST_CASE("summarise --resume: a flag with the run's own value is taken, whatever the decoder has") {
  const Workshop shop;
  const Arguments run{"--task", "sort", "--out", shop / "run"};
  done("summarise",
       run + Arguments{"--layers", "1", "--decoder-layers", "2", "--decoder-attention", "longformer", "--window", "2",
                       "--width", "16", "--heads", "2", "--steps", "2", "--batch", "8", "--eval-every", "2"});
  for (const Arguments& flag : {Arguments{"--layers", "1"}, {"--attention", "softmax"}, {"--window", "2"}}) {
    done("summarise", run + Arguments{"--resume"} + flag);
  }
  const auto refused = [&](const Arguments& flags, const std::string& part) {
    check_refused(run_program("summarise", run + Arguments{"--resume"} + flags), 2, part);
  };
  refused({"--layers", "2"}, "--layers 2: the run in " + (shop / "run").string() + " keeps what it has, 1;");
  refused({"--window", "4"}, "--window 4: the run in " + (shop / "run").string() + " keeps what it has, 2;");
  refused({"--decoder-attention", "linear"}, "keeps what it has, \"longformer\";");
}

TEST_CASE("summarise: a flag of the decoder's mechanism changes the model, in the program and when it goes on") {
  const Workshop shop;
  const auto flags = [&](const std::string& out, const std::string& window) {
    return Arguments{"--task",
                     "sort",
                     "--out",
                     shop / out,
                     "--layers",
                     "1",
                     "--decoder-layers",
                     "1",
                     "--width",
                     "16",
                     "--heads",
                     "2",
                     "--steps",
                     "4",
                     "--eval-every",
                     "2",
                     "--window",
                     window,
                     "--batch",
                     "8",
                     "--checkpoint-every",
                     "2",
                     "--decoder-attention",
                     "longformer"};
  };
  done("summarise", flags("narrow", "2"));
  done("summarise", flags("wide", "64"));
  CHECK(config_of(shop / "narrow")["settings"]["decoder_window"] == 2);
  CHECK(read_bytes(shop / "narrow/model.safetensors") != read_bytes(shop / "wide/model.safetensors"));
  done("summarise", {"--task", "sort", "--out", shop / "narrow", "--resume", "--steps", "6"});
  CHECK(config_of(shop / "narrow")["settings"]["decoder_window"] == 2);
  check_refused(run_program("summarise", flags("narrow", "4") + Arguments{"--resume", "--steps", "8"}), 2,
                "--window 4: the run in " + (shop / "narrow").string() + " keeps what it has, 2; leave the flag out");
  // compare keeps the decoder's options, whichever mechanisms it compares
  done("compare", flags("all", "2") + Arguments{"--attention", "softmax,linear"});
  CHECK(config_of(shop / "all/linear")["settings"]["decoder_window"] == 2);
}
