/// What bench prints and refuses, and what --profile writes.

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>

#include <linnet/linnet.h>
#include <nlohmann/json.hpp>

#include "support/bench/model_case.h"
#include "support/bench/scaling.h"
#include "support/settings/program.h"
#include "tests/examples/plot/picture.h"
#include "tests/examples/run/tiny_run.h"
#include "tests/support/gpu.h"
#include "tests/support/near.h"
#include "tests/support/registered_mechanism.h"

using namespace linnet::examples::test;
using linnet::test::Ended;
using linnet::test::near;
using linnet::test::read_bytes;
using linnet::test::run_program;

namespace {

const Arguments kQuick{"--seconds", "0.001", "--json"};

/// Checks that the output names device, precision and threads, so that figures of different machines can be told
/// apart.
void check_names_machine(const nlohmann::json& object) {
  CAPTURE(object.dump());
  for (const char* field : {"device", "precision"}) CHECK(object.at(field).is_string());
  CHECK(object.at("threads").is_number());
}

/// The cells of the row that begins with `first`, except the first cell; none if there is no such row. Two or more
/// spaces separate cells.
std::vector<std::string> cells_after(const std::string& table, const std::string& first) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(first + "  ")) continue;
    static const std::regex gap(" {2,}");
    const std::sregex_token_iterator cells(line.begin(), line.end(), gap, -1), end;
    return {std::next(cells), end};
  }
  return {};
}

/// The JSON object that a successful run prints on one line.
nlohmann::json object_of(const Arguments& arguments) {
  const Ended ended = run_program("bench", arguments);
  CAPTURE(ended.err);
  REQUIRE(ended.code == 0);
  CHECK(std::ranges::count(ended.out, '\n') == 1);
  nlohmann::json object = nlohmann::json::parse(ended.out);
  check_names_machine(object);
  return object;
}

void check_positive(const nlohmann::json& object, const std::vector<std::string>& fields) {
  for (const std::string& field : fields) {
    CAPTURE(field);
    REQUIRE(object.contains(field));
    CHECK(object[field].get<double>() > 0);
  }
}

void refused(const Arguments& arguments, const std::string& part) {
  const Ended ended = run_program("bench", arguments);
  CAPTURE(ended.err);
  CHECK(ended.code == 2);
  CHECK(ended.err.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("bench attention and layer: every mechanism, with the fields that programs read") {
  for (const std::string& mechanism : linnet::nn::attention_mechanisms()) {
    CAPTURE(mechanism);
    const auto attention = object_of(kQuick + Arguments{"attention", "--mechanism", mechanism, "--tokens", "32"});
    check_positive(attention,
                   {"forward_ms", "forward_backward_ms", "peak_bytes", "flops", "gflops", "gb_per_second"});
    const int64_t projections = mechanism == "linformer" ? 6 * 32 * 32 : 0;  // of 32 slots
    // 4 heads, 32 tokens, 32 numbers, float32
    CHECK(attention["least_bytes"] == (11 * 4 * 32 * 32 + projections) * 4);
    Arguments flags{"layer", "--layer", mechanism, "--tokens", "32", "--width", "64"};
    if (linnet::nn::find_mechanism(mechanism).causal) flags.emplace_back("--causal");
    const auto layer = object_of(kQuick + flags);
    check_positive(layer, {"forward_ms", "forward_backward_ms", "peak_bytes", "flops", "gflops", "floor_ms"});
    CHECK(layer["device"] == "cpu");
    CHECK_FALSE(layer.contains("least_bytes"));  // a layer has linear maps beside the attention
  }
}

TEST_CASE("bench layer: the operations are those of the attention and of the linear maps around it, each once") {
  const Arguments shape{"--tokens", "64", "--heads", "2"};
  for (const auto& [mechanism, maps] : {std::pair{"softmax", 4}, {"linformer", 4}, {"reformer", 3}}) {
    CAPTURE(mechanism);
    const Arguments of{"--attention", mechanism};
    const double attention = object_of(kQuick + Arguments{"attention", "--head-dim", "16"} + shape + of)["flops"];
    const double layer = object_of(kQuick + Arguments{"layer", "--width", "32"} + shape + of)["flops"];
    CHECK(layer - attention == 6.0 * maps * 64 * 32 * 32);
  }
}

TEST_CASE("bench attention: operations and least traffic under the table, of a layer the operations alone") {
  const Arguments quick{"--seconds", "0.001"};
  const Ended attention = run_program("bench", quick + Arguments{"attention", "--tokens", "32"});
  CHECK(std::regex_search(attention.out, std::regex("peak .*, [0-9.]+ GFLOP/s, [0-9.]+ GB/s of least traffic\n$")));
  const Ended layer = run_program("bench", quick + Arguments{"layer", "--tokens", "32"});
  CHECK(std::regex_search(layer.out, std::regex("peak .*, [0-9.]+ GFLOP/s\n$")));
}

TEST_CASE("bench refuses a causal case of a mechanism without a causal form before it measures") {
  using namespace linnet;
  const test::RegisteredMechanism whole(
      {.name = "whole", .make = nn::maker<nn::SoftmaxAttention>(), .causal = false});
  const examples::AttentionCase c{.mechanism = "whole", .causal = true};
  CHECK_THROWS_WITH_AS(examples::measure_attention(c, 0), doctest::Contains("--attention whole has no causal form"),
                       examples::UsageError);
  CHECK_THROWS_WITH_AS(examples::measure_layer(c, 0), doctest::Contains("--attention whole has no causal form"),
                       examples::UsageError);
  const Workshop shop;
  const examples::ScalingOptions options{.mechanisms = {"softmax", "whole"}, .causal = true, .out = shop / "curves"};
  CHECK_THROWS_WITH_AS(examples::run_scaling(options, {}), doctest::Contains("--mechanisms whole has no causal form"),
                       examples::UsageError);
  CHECK_FALSE(std::filesystem::exists(shop / "curves"));
}

TEST_CASE("bench attention: FLOPs are those of the form that ran") {
  const Arguments flags = kQuick + Arguments{"attention",  "--mechanism", "fastmax2", "--tokens", "64",
                                             "--head-dim", "16",          "--heads",  "2",        "--fastmax-form"};
  const double quadratic = object_of(flags + Arguments{"quadratic"})["flops"];
  CHECK(quadratic == 14.0 * 2 * 64 * 64 * 16);
  const double factorised = object_of(flags + Arguments{"factorised"})["flops"];
  CHECK(factorised == 14.0 * 2 * 64 * 153 * 17);
  CHECK(object_of(flags + Arguments{"auto"})["flops"] == quadratic);  // the faster form at this length
  CHECK(object_of(flags + Arguments{"auto", "--dropout", "0.1"})["flops"] == factorised);  // only it has the features
  const double first_order =
      object_of(flags + Arguments{"auto", "--mechanism", "fastmax1", "--dropout", "0.1"})["flops"];
  CHECK(first_order == 14.0 * 2 * 64 * 17 * 17);
}

TEST_CASE("bench attention: the operations of projections, and of sampled scores") {
  const Arguments flags = kQuick + Arguments{"attention", "--tokens", "128", "--head-dim", "16", "--heads", "2"};
  CHECK(object_of(flags + Arguments{"--mechanism", "linformer"})["flops"] == 26.0 * 2 * 128 * 64 * 16);
  CHECK(object_of(flags + Arguments{"--mechanism", "informer"})["flops"] == 16.0 * 2 * 128 * 25 * 16);
  CHECK(object_of(flags + Arguments{"--mechanism", "informer", "--tokens", "15"})["flops"] ==
        14.0 * 2 * 15 * 15 * 16);
}

TEST_CASE("bench step: a step beside its matrix products") {
  const Workshop shop;
  const Arguments model = shop.tiny_model();
  const auto step = object_of(kQuick + Arguments{"step"} + model);
  check_positive(step, {"ms_per_step", "tokens_per_second", "floor_ms", "peak_bytes", "resident_bytes"});
  CHECK(step["preset"] == "nanogpt-cpu");
  const Ended table = run_program("bench", Arguments{"--seconds", "0.001", "step"} + model);
  CHECK(table.out.starts_with("preset nanogpt-cpu, context 16, heads 2, layers 1, width 16, softmax, " +
                              step["data"].get<std::string>()));
  const Arguments no_data(model.begin() + 2, model.end());
  // only JSON on stdout, although the data are a stand-in
  check_positive(object_of(kQuick + Arguments{"step"} + no_data), {"ms_per_step"});
}

TEST_CASE("bench step --profile: the kernels and what is between them make up the profiled steps") {
  const Workshop shop;
  const Arguments flags = Arguments{"--seconds", "0.001", "step", "--profile"} + shop.tiny_model();
  const auto step = object_of(flags + Arguments{"--json", "--out", shop / "profile"});
  const double mean = step["profiled_ms_per_step"];
  double sum = 0, calls = 0;
  for (const auto& row : step["profile"]) {
    CAPTURE(row.dump());
    CHECK(row["ms"].get<double>() >= 0);
    sum += row["ms"].get<double>();
    calls += row["calls"].get<double>();
  }
  CHECK(sum > 0);
  CHECK(sum <= mean);

  const auto trace = nlohmann::json::parse(read_bytes(shop / "profile/trace.json"));
  const auto& last = trace["traceEvents"].back();
  CHECK(static_cast<double>(trace["traceEvents"].size()) == 10 * calls);
  CHECK(last["ts"].get<double>() + last["dur"].get<double>() <= 1e4 * mean);  // ten steps, in microseconds

  const std::string table = read_bytes(shop / "profile/profile.txt");
  CHECK(contains(table, Workshop::kTextName + ", 10 profiled steps: "));
  const auto all = cells_after(table, "all kernels"), between = cells_after(table, "between kernels");
  REQUIRE(all.size() == 6);
  REQUIRE(between.size() == 6);
  CHECK(std::stod(all[0]) == doctest::Approx(sum).epsilon(0.01));
  CHECK(std::stod(all[0]) + std::stod(between[0]) == doctest::Approx(mean).epsilon(0.01));
  CHECK(std::stod(all[4]) + std::stod(between[4]) == doctest::Approx(100).epsilon(0.002));  // percent
  CHECK(std::stod(between[4]) >= 0);
}

TEST_CASE("bench step --profile: a row for each op and kernel, which the layers of all blocks share") {
  const Workshop shop;
  const Arguments flags{"--json", "--seconds", "0.001", "step", "--profile"};
  const auto step = object_of(flags + shop.tiny_model() + Arguments{"--layers", "2"});
  std::map<std::string, double> calls;
  for (const auto& row : step["profile"]) {
    const std::string direction = row["backward"] ? ", backward: " : ": ";
    calls[row["op"].get<std::string>() + direction + row["kernel"].get<std::string>()] = row["calls"];
  }
  CHECK(calls.size() == step["profile"].size());
  CHECK(calls["blocks.*.mlp.fc1: gemm"] == 2);
  CHECK(calls["blocks.*.mlp.fc1, backward: gemm"] == 4);
  CHECK(calls["blocks.*.attention: attention"] == 2);
  CHECK(calls["blocks.*.attention, backward: attention_backward"] == 2);
  CHECK(calls["step: adamw"] == 1);
}

TEST_CASE("bench step --profile: a table, nothing in it negative, and no files without --out") {
  const Workshop shop;
  const Ended ended = run_program("bench", Arguments{"--seconds", "0.001", "step", "--profile"} + shop.tiny_model());
  REQUIRE(ended.code == 0);
  CHECK(std::regex_search(ended.out, std::regex("\nop +kernel +ms +calls ")));
  CHECK(std::stod(cells_after(ended.out, "between kernels").at(4)) >= 0);  // percent of the step
  CHECK(names_in(shop / ".") == std::vector<std::string>{"data"});
}

TEST_CASE("bench step: --out is checked before anything is measured") {
  const Ended ended = run_program("bench", {"step", "--profile", "--out", "/proc/linnet"});
  CHECK(ended.code == 1);
  CHECK(contains(ended.err, "--out: cannot make /proc/linnet"));
}

TEST_CASE("bench generate: a token at a context") {
  const auto token = object_of({"--json", "generate", "--attention", "fastmax2", "--context", "3"});
  check_positive(token, {"ms_per_token", "resident_bytes"});
  CHECK(token["context"] == 3);
  CHECK(token["positions"] == "none");
}

TEST_CASE("bench kernels: every kernel, its bytes and operations, and its share of the bound") {
  const Arguments small{"kernels", "--batch",    "2",  "--heads", "2",  "--tokens",
                        "64",      "--head-dim", "16", "--side",  "128"};
  const auto table = object_of(kQuick + small);
  check_positive(table, {"bytes_per_second", "flops_per_second"});
  CHECK(table["device"] == "cpu");
  std::map<std::string, nlohmann::json> rows;
  for (const auto& row : table["kernels"]) {
    CAPTURE(row.dump());
    CHECK(rows.emplace(row["kernel"], row).second);  // each row has its own name
    CHECK(row["share"].get<double>() > 0);
    const double by_memory = row["bytes"].get<double>() / table["bytes_per_second"].get<double>();
    const double by_products = row["flops"].get<double>() / table["flops_per_second"].get<double>();
    CHECK(row["bound"] == (by_memory >= by_products ? "memory" : "products"));
    CHECK(row["share"].get<double>() * row["ms"].get<double>() == near(1e3 * std::max(by_memory, by_products), 1e-6));
  }
  CHECK(rows.size() == 28);
  constexpr double kNumbers = 2 * 64 * 32;  // of x [2, 64, 2 · 16]
  CHECK(rows["binary add"]["bytes"] == 4 * 3 * kNumbers);
  CHECK(rows["adamw"]["bytes"] == 4 * 7 * kNumbers);
  CHECK(rows["gemm, with a bias"]["flops"] == 2 * kNumbers * 32);
  CHECK(rows["attention"]["flops"] == 4 * kNumbers * 64);
  CHECK(rows["fastmax_backward"]["flops"] == 10 * 2 * 64 * 2 * 153 * 17);
  CHECK(rows["performer_attention"]["flops"] == 2 * 64 * 2 * 44 * (4 * 16 + 4 * 17));

  const Ended text = run_program("bench", Arguments{"--seconds", "0.001"} + small);
  CHECK(text.out.starts_with("Bounds measured in this run: copies read and write "));
}

TEST_CASE("bench model: a step of each model without attention") {
  for (const std::string& model : linnet::examples::model_names()) {
    CAPTURE(model);
    const nlohmann::json object = object_of(kQuick + Arguments{"model", "--model", model});
    check_names_machine(object);
    CHECK(object.at("model") == model);
    CHECK(object.at("ms_per_step") > 0);
    CHECK(object.at("peak_bytes") > 100'000);
  }
}

TEST_CASE("bench crossover: measured lengths beside the theory's and the committed ones") {
  const Ended ended = run_program("bench", {"--json", "--seconds", "0.001", "crossover", "--mechanisms", "fastmax2",
                                            "--head-dims", "16", "--to", "512"});
  REQUIRE(ended.code == 0);
  std::istringstream lines(ended.out);
  std::vector<nlohmann::json> found;
  for (std::string line; std::getline(lines, line);) found.push_back(nlohmann::json::parse(line));
  REQUIRE(found.size() == 2);
  for (const auto& object : found) check_names_machine(object);
  CHECK(found[0]["causal"] == false);
  CHECK(found[0]["theory"] == doctest::Approx(162.5625));  // 153 features · 17 / 16
  CHECK(found[0]["committed"] == 240);                     // from 232 on, in steps of 16
  CHECK(found[1]["theory"] == doctest::Approx(325.125));
  CHECK(found[1]["committed"].is_null());  // it is above 512
  for (const char* key : {"against_quadratic", "against_softmax"}) CHECK(found[0].contains(key));
}

TEST_CASE("bench computes where --device says") {
  if (linnet::test::gpu_answers()) {
    CHECK(object_of(kQuick + Arguments{"--device", "cuda", "attention", "--tokens", "32"})["device"] == "cuda");
    const auto stored = object_of(kQuick + Arguments{"--device", "cuda", "attention", "--dtype", "bfloat16"});
    CHECK(stored["dtype"] == "bfloat16");
    const Arguments mixed = kQuick + Arguments{"--device", "cuda", "--precision", "bfloat16"};
    CHECK(object_of(mixed + Arguments{"layer", "--tokens", "32"})["dtype"] == "bfloat16");
    CHECK(object_of(mixed + Arguments{"generate", "--context", "3"})["precision"] == "bfloat16");
    return;
  }
  for (const std::string command : {"attention", "layer", "model", "generate", "kernels", "scaling", "crossover"}) {
    CAPTURE(command);
    const Ended ended = run_program("bench", {"--device", "cuda", command});
    CHECK(ended.code == 1);
    CHECK(ended.err.find("use --device cpu") != std::string::npos);
  }
}

TEST_CASE("bench: what it refuses") {
  refused({}, "subcommand is required");
  refused({"attention", "--mechanism", "hardmax"}, "--attention: hardmax not in");
  refused({"foo"}, "foo");
  refused({"attention", "--tokens", "0"}, "--tokens: 0 is not a whole number, 1 or more");
  refused({"attention", "--tokens", "1.5"}, "--tokens: 1.5 is not a whole number");
  refused({"layer", "--heads", "0"}, "--heads: 0 is not a whole number, 1 or more");
  refused({"kernels", "--side", "0"}, "--side: 0 is not a whole number, 1 or more");
  refused({"model", "--model", "vgg"}, "--model: vgg not in {batch_norm,gru,lenet,lstm,residual}");
  refused({"crossover", "--to", "0"}, "--to: 0 is not a whole number from 32 to 1000000000");
  refused({"crossover", "--to", "31"}, "--to: 31 is not a whole number from 32 to 1000000000");
  refused({"scaling", "--head-dims", "16,0"}, "--head-dims: 0 is not a whole number, 1 or more");
  refused({"scaling", "--limit", "nan"}, "--limit: nan is not a number from 1e-06 to 1000000");
  refused({"scaling", "--limit", "0"}, "--limit: 0 is not a number");
  refused({"generate", "--context", "-1"}, "--context: -1 is not a whole number from 0 to 10000000");
  refused({"step", "--batch", "1.5"}, "--batch: 1.5 is not a whole number");
  refused({"--seconds", "nan", "attention"}, "--seconds: nan is not a number from 1e-06 to 3600");
  refused({"--seconds", "0", "attention"}, "--seconds: 0 is not a number");
  refused({"attention", "--dropout", "nan"}, "--attention-dropout: nan is not a number from 0 to 0.99");
  refused({"attention", "--attention", "fastmax2", "--fastmax-form", "quadratic", "--dropout", "0.1"},
          "--dropout-kind quadratic does not apply to --attention fastmax2, whose form quadratic has no features");
  refused({"--seconds", "5", "generate"}, "--seconds does not apply to generate");
  refused({"--seconds", "5", "scaling"}, "--seconds does not apply to scaling");
  refused({"step", "--out", "profile"}, "--out does not apply to step without --profile");
  refused({"step", "--out", ""}, "--out: it names no file or folder");
  refused({"attention", "--fastmax-form", "auto"}, "--fastmax-form auto does not apply to --attention softmax");
  refused({"layer", "--attention", "longformer", "--window", "7"},
          "--window 7 does not apply to --attention longformer");
  refused({"layer", "--attention", "fastformer", "--share", "layers"}, "--share layers does not apply to bench");
  refused({"attention", "--attention", "linformer", "--tokens", "32", "--linformer-rank", "33"},
          "--linformer-rank 33");
  refused({"scaling", "--mechanisms", "softmax,linear", "--block", "8"},
          "--block 8 applies to none of --mechanisms softmax,linear");
  refused({"scaling", "--mechanisms", "all", "--from", "32", "--linformer-rank", "33"}, "--linformer-rank 33");
  refused({"generate", "--attention-dropout", "0"}, "--attention-dropout does not apply to generate");
  refused({"generate", "--attention", "fastmax2", "--fastmax-form", "quadratic"},
          "--fastmax-form does not apply to generate, which takes one token at a time, in one form; leave it out");
  refused({"attention", "--dtype", "bfloat16"}, "--dtype bfloat16 does not apply to --device cpu");
  refused({"attention", "--dtype", "float16"}, "--dtype");
  refused({"layer", "--width", "100"}, "--width 100 is not a multiple of --heads 16");
  refused({"step", "--preset", "nanogpt"}, "--preset nanogpt: the presets are nanogpt-cpu, nanogpt-gpu, mnist-small");
  refused({"generate", "--positions", "learned"}, "--positions");
  refused({"generate", "--attention", "fastmax1", "--positions", "rotary"},
          "--positions rotary does not apply to --attention fastmax1");
  refused({"scaling", "--from", "64", "--to", "32"}, "--from 64 is above --to 32");
}

TEST_CASE("train --profile: a table, and a trace that browsers draw") {
  const Workshop shop;
  const Ended ended = run_program("train_shakespeare", shop.tiny("run") + Arguments{"--profile"});
  REQUIRE(ended.code == 0);
  const std::string table = read_bytes(shop / "run/profile.txt");
  CHECK(ended.out.find(table) != std::string::npos);
  CHECK(std::regex_search(table, std::regex("\nop +kernel +ms +calls ")));
  CHECK_FALSE(cells_after(table, "all kernels").empty());
  CHECK(cells_after(table, "between kernels").at(4).front() != '-');  // percent of the step
  const auto trace = nlohmann::json::parse(read_bytes(shop / "run/trace.json"));
  const auto& events = trace["traceEvents"];
  REQUIRE(events.size() > 100);
  CHECK(events[0]["ph"] == "X");
  CHECK(events.back()["ts"].get<double>() > events.front()["ts"].get<double>());

  const Ended few = run_program("train_shakespeare", shop.tiny("few") + Arguments{"--steps", "19", "--profile"});
  CHECK(few.code == 2);
  CHECK(few.err.find("--profile times ten steps after ten others; --steps 19 is too few") != std::string::npos);
}

TEST_CASE("train --profile is refused where the run has too few steps to make") {
  const Workshop shop;
  const auto refused = [&](const Arguments& flags, const std::string& steps) {
    const Arguments profiled = flags + Arguments{"--data", shop / "data", "--profile"};
    const Ended ended = run_program("train_shakespeare", profiled);
    CAPTURE(ended.err);
    CHECK(ended.code == 2);
    CHECK(contains(ended.err, "and the run has only " + steps + " to make; leave it out"));
  };
  REQUIRE(run_program("train_shakespeare", shop.tiny("run")).code == 0);
  const std::string metrics = read_bytes(shop / "run/metrics.jsonl");
  refused({"--resume", "--out", shop / "run"}, "0");
  CHECK(read_bytes(shop / "run/metrics.jsonl") == metrics);
  CHECK_FALSE(std::filesystem::exists(shop / "run/profile.txt"));
  refused({"--epochs", "1", "--warmup", "0", "--batch", "60", "--context", "16", "--out", shop / "few"}, "5");
  CHECK_FALSE(std::filesystem::exists(shop / "few"));
}
