/// Weights saved by Hugging Face's transformers give the same logits here as there.

#include <doctest/doctest.h>

#include <linnet/linnet.h>
#include <nlohmann/json.hpp>

#include "tests/support/files.h"

using namespace linnet;
using linnet::test::read_bytes;
using linnet::test::TemporaryFolder;
using linnet::test::write_bytes;
namespace fs = std::filesystem;

namespace {

const fs::path kFolder = fs::path(LINNET_TEST_DATA) / "goldens/weights/gpt2";

/// The largest difference from the logits of transformers, in any element.
double difference(const nn::DecoderLM& model) {
  const Safetensors expected = read_safetensors(kFolder / "logits.safetensors");
  const Tensor logits = model(expected.tensors.at("tokens")).to(DType::float64);
  REQUIRE(logits.shape() == expected.tensors.at("logits").shape());
  return max(abs(logits - expected.tensors.at("logits"))).item<double>();
}

nn::DecoderConfig config() { return nn::read_gpt2_config(kFolder / "config.json"); }

}  // namespace

TEST_CASE("generate: the likeliest tokens of a GPT-2 are those of transformers, a hundred of them") {
  const fs::path folder = fs::path(LINNET_TEST_DATA) / "goldens/tokenizer";
  const auto tokenizer = nn::BytePairTokenizer::load(folder);
  Generator rng(1);
  nn::DecoderLM model(rng, nn::read_gpt2_config(folder / "config.json"));
  nn::load_gpt2(model, folder / "model.safetensors");
  for (const auto& golden : nlohmann::json::parse(read_bytes(folder / "continuations.json"))) {
    const std::vector<int64_t> prompt = tokenizer.encode(golden.at("prompt").get<std::string>());
    const auto ids = nn::generate(model, prompt, rng, {.max_new_tokens = 100, .temperature = 0});
    CHECK(ids == golden.at("ids").get<std::vector<int64_t>>());
  }
}

TEST_CASE("load_gpt2: the logits of transformers") {
  const auto check = [](DType dtype, double bound) {
    Generator rng(1);
    nn::DecoderLM model(rng, config(), dtype);
    model.eval();
    CHECK(difference(model) > 0.1);
    nn::load_gpt2(model, kFolder / "model.safetensors");
    CHECK(difference(model) < bound);
  };
  check(DType::float32, 1e-5);
  check(DType::float64, 1e-12);
}

TEST_CASE("load_gpt2: names without a prefix, stored masks and a stored head are the same model") {
  const TemporaryFolder folder;
  const Safetensors file = read_safetensors(kFolder / "model.safetensors");
  Safetensors older;
  for (const auto& [name, tensor] : file.tensors) {
    older.tensors[name.substr(name.find('.') + 1)] = tensor;
  }
  older.tensors["h.0.attn.bias"] = ones({1, 1, 10, 10}, DType::boolean);
  older.tensors["h.1.attn.masked_bias"] = scalar(-1e4);
  older.tensors["lm_head.weight"] = older.tensors.at("wte.weight");
  write_safetensors(folder / "older", older);
  Generator rng(1);
  nn::DecoderLM model(rng, config());
  model.eval();
  nn::load_gpt2(model, folder / "older");
  CHECK(difference(model) < 1e-5);

  older.tensors["lm_head.weight"] = older.tensors.at("wte.weight") + 1;
  write_safetensors(folder / "untied", older);
  CHECK_THROWS_WITH_AS(nn::load_gpt2(model, folder / "untied"), doctest::Contains("lm_head.weight differs from wte"),
                       ValueError);
}

TEST_CASE("load_gpt2: lists all that does not fit by its name in the file, and copies nothing") {
  const TemporaryFolder folder;
  Safetensors file = read_safetensors(kFolder / "model.safetensors");
  file.tensors.erase("transformer.ln_f.bias");
  file.tensors["transformer.h.1.mlp.c_fc.weight"] = zeros({48, 12});
  file.tensors["transformer.h.2.ln_1.bias"] = zeros({12});
  write_safetensors(folder / "weights", file);
  Generator rng(1);
  nn::DecoderLM model(rng, config());
  const std::vector<float> before = model.state().at("pos.weight").to_vector<float>();
  std::string message;
  try {
    nn::load_gpt2(model, folder / "weights");
  } catch (const ValueError& error) {
    message = error.what();
  }
  CAPTURE(message);
  for (const std::string part : {"missing: transformer.ln_f.bias [12] float32",
                                 "different: transformer.h.1.mlp.c_fc.weight is [12, 48] float32 here and [48, 12]",
                                 "unexpected: transformer.h.2.ln_1.bias"}) {
    CAPTURE(part);
    CHECK(message.find(part) != std::string::npos);
  }
  CHECK(model.state().at("pos.weight").to_vector<float>() == before);
}

TEST_CASE("load_gpt2: a model of another architecture is refused") {
  const auto refused = [](auto&& change) {
    nn::DecoderConfig other = config();
    change(other);
    Generator rng(1);
    nn::DecoderLM model(rng, other);
    CHECK_THROWS_WITH_AS(nn::load_gpt2(model, kFolder / "model.safetensors"),
                         doctest::Contains("not of GPT-2's architecture"), ValueError);
  };
  refused([](nn::DecoderConfig& c) { c.block.gelu = Gelu::erf; });
  refused([](nn::DecoderConfig& c) { c.block.pre_norm = false; });
  refused([](nn::DecoderConfig& c) { c.block.attention.mechanism = "fastmax1"; });
  refused([](nn::DecoderConfig& c) { c.block.attention.bias = false; });
  refused([](nn::DecoderConfig& c) { c.positions = nn::Positions::rotary; });
  refused([](nn::DecoderConfig& c) { c.share_layers = true; });
}

TEST_CASE("read_gpt2_config: sizes and rates, and settings that are not GPT-2's") {
  const nn::DecoderConfig c = config();
  CHECK(c.vocabulary == 17);
  CHECK(c.context == 10);
  CHECK(c.layers == 2);
  CHECK(c.block.attention.width == 12);
  CHECK(c.block.attention.heads == 3);
  CHECK(c.block.attention.dropout == 0.1);
  CHECK(c.block.dropout == 0.1);

  const TemporaryFolder folder;
  const std::string text = linnet::test::read_bytes(kFolder / "config.json");
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& part) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    write_bytes(folder / "config.json", changed);
    CHECK_THROWS_WITH_AS(nn::read_gpt2_config(folder / "config.json"), doctest::Contains(part.c_str()), Error);
  };
  refused("gelu_new", "relu", R"("activation_function" is "relu"; models of GPT-2's architecture have "gelu_new")");
  refused("\"gpt2\"", "\"llama\"", R"("model_type" is "llama")");
  refused("1e-05", "1e-06", "layer_norm_epsilon");
  refused("n_head", "heads", "does not give the sizes of a model");
  refused("\"n_embd\": 12", "\"n_embd\": \"twelve\"", "does not give the sizes of a model");
  refused("\"n_embd\": 12", "\"n_embd\": 12.5", R"(sizes of a model: "n_embd" is 12.5, where a whole number)");
  refused("\"n_embd\": 12", "\"n_embd\": 1e33", R"("n_embd" is 1e+33, where a whole number is needed)");
  refused("\"n_embd\": 12", "\"n_embd\": 18446744073709551615",
          R"("n_embd" is 18446744073709551615, where a whole number is needed)");
  refused("\"n_embd\": 12", "\"n_embd\": -9223372036854775809", "where a whole number is needed");
  refused("\"attn_pdrop\": 0.1", "\"attn_pdrop\": \"much\"", R"("attn_pdrop" is "much", where a number is needed)");
  refused("{", "", "is not a JSON file: ");
  refused("{", "{\"deep\": " + std::string(200'000, '['), "is not a JSON file: ");
  refused("{", "{\"deep\": " + std::string(100, '['), "lists and objects are nested more than 32 deep");
  refused("{", "{" + std::string(70'000, ' '), "it has more than 65536 bytes");
  CHECK_THROWS_WITH_AS(nn::read_gpt2_config(folder / "none"),
                       doctest::Contains("none': No such file or directory; give the one that lies beside"), IoError);
}

TEST_CASE("read_gpt2_eos_token_id: the end token, if the vocabulary has it") {
  CHECK(nn::read_gpt2_eos_token_id(kFolder / "config.json") == 0);
  const TemporaryFolder folder;
  const std::string text = read_bytes(kFolder / "config.json"), from = "\"eos_token_id\": 0";
  const auto read = [&](const std::string& entry) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), entry);
    write_bytes(folder / "config.json", changed);
    return nn::read_gpt2_eos_token_id(folder / "config.json");
  };
  CHECK(read("\"eos_token_id\": 16") == 16);
  CHECK_FALSE(read("\"eos_token_id\": 17"));
  CHECK_FALSE(read("\"eos_token_id\": -1"));
  CHECK_FALSE(read("\"eos_token_id\": null"));
  CHECK_FALSE(read("\"unk_token_id\": 0"));
  CHECK_THROWS_WITH_AS(read("\"eos_token_id\": [0]"),
                       doctest::Contains("does not give an end token: \"eos_token_id\" is [0], where a whole number"),
                       IoError);
}
