/// nn::Checkpoint: a loop that stops and resumes has the same bits as one that never stopped, and an error changes
/// nothing.

#include <doctest/doctest.h>

#include <functional>
#include <optional>

#include <linnet/linnet.h>

#include "tests/support/allocation_count.h"
#include "tests/support/allocation_failure.h"
#include "tests/support/files.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace linnet;
using test::read_bytes;
using test::TemporaryFolder;
using test::uniform;
using test::write_bytes;

namespace {

struct Net : nn::Module {
  explicit Net(Generator& rng, int64_t hidden = 5, double rate = 0.2) : Module(rng), fc1(*this, "fc1", 3, hidden) {
    fc2.emplace(*this, "fc2", hidden, 2);
    dropout.emplace(*this, "dropout", rate);
  }
  Tensor operator()(const Tensor& x) const { return (*fc2)((*dropout)(relu(fc1(x)))); }
  nn::Linear fc1;
  std::optional<nn::Linear> fc2;
  std::optional<nn::Dropout> dropout;
};

/// A user's own part: how often each class occurred.
struct Counts {
  Tensor counts = zeros({2}, DType::int64);
  TensorMap state() const { return {{"counts", counts}}; }
  void load_state(const TensorMap& state) { counts.copy_(state.at("counts")); }
};

/// The objects of a user's own loop.
struct Loop {
  explicit Loop(const std::filesystem::path& path, uint64_t seed = 7) : rng(seed), checkpoint(path) {
    checkpoint.add("model", model).add("optimizer", optimizer).add("average", average).add("plateau", plateau);
    checkpoint.add("generator", rng).add("loader", loader).add("counts", counts);
    checkpoint.add("step", step).add("loss", loss).add("note", note).add("best", best);
  }

  void run(int64_t steps) {
    while (step < steps) {
      std::optional<nn::Batch> batch = loader.next();
      if (!batch) continue;
      const Tensor error = cross_entropy(model(batch->inputs), batch->targets);
      optimizer.zero_grad();
      backward(error);
      optimizer.step();
      average.update();
      loss = error.item();
      optimizer.set_lr(plateau.step(loss));
      counts.counts.copy_(counts.counts + bincount(batch->targets, {}, 2));
      best.copy_(minimum(best, loss));
      note += std::to_string(++step) + "\n";
    }
  }

  std::string everything() const {
    std::string text = fmt_of(model.state()) + fmt_of(optimizer.state()) + fmt_of(average.state()) +
                       fmt_of(plateau.state()) + to_string(counts.counts) + to_string(best) + note;
    for (const double number : {static_cast<double>(step), loss, static_cast<double>(rng.state().draws),
                                static_cast<double>(rng.state().seed), static_cast<double>(loader.position().epoch),
                                static_cast<double>(loader.position().batch)}) {
      text += " " + to_string(tensor({number}));
    }
    return text;
  }

  static std::string fmt_of(const TensorMap& state) {
    std::string text;
    for (const auto& [name, tensor] : state) {
      text += name;
      for (const double value : tensor.to_vector<double>()) text += " " + to_string(linnet::tensor({value}));
    }
    return text;
  }

  Generator rng;
  Net model{rng};
  nn::AdamW optimizer{model.parameters(), {.lr = 0.05}};
  nn::ExponentialMovingAverage average{model.parameters(), 0.9};
  nn::ReduceLROnPlateau plateau{{.lr = 0.05, .factor = 0.5, .patience = 1}};
  nn::TensorDataset data{{uniform({10, 3}, 1).to(DType::float32), tensor<int64_t>({0, 1, 0, 1, 1, 0, 1, 0, 0, 1})}};
  nn::Loader loader{data, {.batch = 4, .seed = 3}};
  Counts counts;
  int64_t step = 0;
  double loss = 0;
  std::string note;
  Tensor best = full({1}, 100);
  nn::Checkpoint checkpoint;
};

}  // namespace

TEST_CASE("Checkpoint: a loop that stopped after any step goes on to the same bits") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.safetensors";
  Loop whole(path);
  whole.run(9);
  for (int64_t stop = 0; stop <= 9; ++stop) {
    CAPTURE(stop);
    {
      Loop first(path);
      first.run(stop);
      first.checkpoint.save();
    }
    Loop second(path, 99);  // other weights and another stream, until it loads
    REQUIRE(second.checkpoint.exists());
    second.checkpoint.load();
    CHECK(second.step == stop);
    second.run(9);
    CHECK(second.everything() == whole.everything());
  }
}

TEST_CASE("Checkpoint: a file that does not fit changes nothing, and the error names the part") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.safetensors";
  Loop saved(path);
  saved.run(4);
  saved.checkpoint.save();
  const Safetensors good = read_safetensors(path);
  Loop loop(path, 2);
  loop.run(2);
  const std::string before = loop.everything();
  const auto refused = [&](const std::function<void(Safetensors&)>& change, const std::string& message) {
    CAPTURE(message);
    Safetensors content = good;
    change(content);
    write_safetensors(path, content);
    try {
      loop.checkpoint.load();
      FAIL_CHECK("it was loaded");
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find(message) != std::string::npos);
      CHECK(std::string(error.what()).starts_with("load: "));
      CHECK(std::string(error.what()).find("checkpoint_test.cpp") != std::string::npos);
    }
    CHECK(loop.everything() == before);
  };
  refused([](Safetensors& c) { c.tensors.erase("model.fc1.weight"); }, "run.safetensors is of another run: model: ");
  refused([](Safetensors& c) { c.tensors.erase("optimizer.lr"); }, "is of another run: optimizer: ");
  refused([](Safetensors& c) { c.tensors.erase("average.updated"); }, "is of another run: average: ");
  refused([](Safetensors& c) { c.tensors.erase("plateau.lr_and_best"); }, "is of another run: plateau: ");
  refused([](Safetensors& c) { c.tensors["best"] = zeros({2}); },
          "is of another run: best: it should be [1] float32");
  refused([](Safetensors& c) { c.tensors.erase("best"); }, "is of another run: best: ");
  refused([](Safetensors& c) { c.tensors["critic.weight"] = zeros({2}); },
          "it has a 'critic', which was not added; add it, or pass {.strict = false}");
  refused([](Safetensors& c) { c.metadata.erase("step"); },
          "run.safetensors is no checkpoint of a training run: it has no number \"step\"");
  refused([](Safetensors& c) { c.metadata["step"] = "7x"; }, "it has no number \"step\"");
  refused([](Safetensors& c) { c.metadata.erase("loss"); }, "it has no number \"loss\"");
  refused([](Safetensors& c) { c.metadata.erase("note"); }, "it has no text \"note\"");
  refused([](Safetensors& c) { c.metadata.erase("generator_draws"); }, "it has no number \"generator_draws\"");
  refused([](Safetensors& c) { c.metadata["loader_batch"] = "4"; }, "is of another run: loader: ");
  write_safetensors(path, good);
  loop.checkpoint.load();
  CHECK(loop.everything() == saved.everything());
}

TEST_CASE("Checkpoint: a part of any kind that was not added is refused") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.safetensors";
  const nn::TensorDataset data({uniform({10, 3}, 1)});
  struct Parts {
    explicit Parts(const nn::TensorDataset& data) : loader(data, {.batch = 2}) {}
    Generator rng{1};
    nn::Loader loader;
    int64_t step = 0;
    double loss = 0;
    std::string note;
    Tensor best = zeros({1});
    nn::SGD optimizer{{zeros({2}).set_requires_grad()}, {.lr = 0.1, .momentum = 0.9}};
  };
  const auto add_all_but = [](nn::Checkpoint& checkpoint, Parts& parts, const std::string& left_out) {
    const auto add = [&](const std::string& name, auto& part) {
      if (name != left_out) checkpoint.add(name, part);
    };
    add("rng", parts.rng);
    add("loader", parts.loader);
    add("step", parts.step);
    add("loss", parts.loss);
    add("note", parts.note);
    add("best", parts.best);
    add("optimizer", parts.optimizer);
  };
  Parts saved(data);
  nn::Checkpoint writer(path);
  add_all_but(writer, saved, "");
  writer.save();
  for (const std::string left_out : {"rng", "loader", "step", "loss", "note", "best", "optimizer"}) {
    Parts parts(data);
    nn::Checkpoint reader(path);
    add_all_but(reader, parts, left_out);
    CHECK_THROWS_WITH_AS(reader.load(),
                         doctest::Contains(("it has a '" + left_out + "', which was not added").c_str()), ValueError);
    reader.load({.strict = false});
  }
}

TEST_CASE("Checkpoint: a model with other settings is refused") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.safetensors";
  struct Pooled : nn::Module {
    Pooled(Generator& rng, int64_t kernel) : Module(rng), pool(*this, "pool", kernel) {}
    nn::MaxPool2d pool;
  };
  Generator rng(1);
  Pooled first(rng, 2), second(rng, 3), same(rng, 2);
  nn::Checkpoint(path).add("first", first).add("second", second).save();
  CHECK_THROWS_WITH_AS(nn::Checkpoint(path).add("first", same).add("second", same).load(),
                       doctest::Contains("is of another run: second: pool.kernel is 2 here and 3 there"), ValueError);
  nn::Checkpoint(path).add("first", same).load({.strict = false});
}

TEST_CASE("Checkpoint: one part of several can be loaded") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.safetensors";
  Loop saved(path);
  saved.run(3);
  saved.checkpoint.save();
  Generator rng(5);
  Net model(rng);
  nn::Checkpoint checkpoint(path);
  checkpoint.add("model", model);
  CHECK_THROWS_AS(checkpoint.load(), ValueError);
  checkpoint.load({.strict = false});
  CHECK(Loop::fmt_of(model.state()) == Loop::fmt_of(saved.model.state()));
}

TEST_CASE("Checkpoint: tensors that a part does not need are not read") {
  struct Half : Counts {
    bool needs(const std::string& name) const { return name == "counts"; }
    TensorMap state() const { return {{"counts", counts}, {"large", zeros({1 << 20})}}; }
    void load_state(const TensorMap& state) {
      names = std::ssize(state);
      Counts::load_state(state);
    }
    int64_t names = 0;
  };
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.safetensors";
  Half half;
  half.counts.fill_(3);
  Counts others;
  nn::Checkpoint(path).add("half", half).add("others", others).save();
  half.counts.fill_(0);
  release_cached_memory();
  reset_peak_memory();
  const int64_t before = memory_stats().live;
  nn::Checkpoint(path).add("half", half).load({.strict = false});
  CHECK(memory_stats().peak - before < 1 << 20);
  CHECK(half.names == 1);
  CHECK(half.counts.to_vector<int64_t>() == std::vector<int64_t>{3, 3});
}

TEST_CASE("Checkpoint: texts of a user's own, names, and a file that is not there") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.safetensors";
  int64_t step = 3;
  double half = 0.5;
  Generator rng(1);
  nn::Checkpoint checkpoint(path, {{"author", "me"}});
  checkpoint.add("step", step).add("rng", rng);
  CHECK_FALSE(checkpoint.exists());
  CHECK_THROWS_AS(checkpoint.load(), IoError);
  checkpoint.save();
  CHECK(read_safetensors(path).metadata.at("author") == "me");
  CHECK_THROWS_WITH_AS(checkpoint.add("step", half), "the checkpoint has a 'step' already; choose another name",
                       ValueError);
  CHECK_THROWS_AS(checkpoint.add("rng_seed", step), ValueError);
  CHECK_THROWS_WITH_AS(checkpoint.add("a.b", step), doctest::Contains("names are not empty and have no dots"),
                       ValueError);
  CHECK_THROWS_AS(checkpoint.add("", step), ValueError);
}

TEST_CASE("Checkpoint: without memory all stays as it was") {
  if (!test::allocations_are_counted("requests for memory that fail")) return;
  const test::WithThreads with(1);
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.safetensors";
  Generator rng(1);
  Net saved(rng), model(rng);
  int64_t step = 3;
  nn::AdamW of_saved(saved.parameters());
  std::optional<nn::AdamW> of_model(model.parameters());
  backward(sum(saved(ones({1, 3}))));
  of_saved.step();
  nn::Checkpoint(path).add("step", step).add("model", saved).add("optimizer", of_saved).save();
  const auto everything = [&](const Net& net, const nn::Optimizer& optimizer) {
    return Loop::fmt_of(net.state()) + Loop::fmt_of(optimizer.state());
  };
  const std::string before = everything(model, *of_model), there = everything(saved, of_saved);
  TensorMap start;
  for (const auto& [name, tensor] : model.state()) start[name] = tensor.clone();
  int64_t at = 0;
  test::fail_each_request(
      [&] { nn::Checkpoint(path).add("step", at).add("model", model).add("optimizer", *of_model).load(); },
      [&](bool failed) {
        REQUIRE(everything(model, *of_model) == (failed ? before : there));
        REQUIRE(at == (failed ? 0 : 3));
        if (failed) return;
        model.load_state(start);
        of_model.emplace(model.parameters());
        at = 0;
      });
}

TEST_CASE("Checkpoint: a file that could not be saved for want of memory is the old one") {
  if (!test::allocations_are_counted("requests for memory that fail")) return;
  const test::WithThreads with(1);
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.safetensors";
  Loop loop(path);
  loop.run(3);
  loop.checkpoint.save();
  const std::string old = read_bytes(path);
  loop.run(4);
  loop.loader.seek(loop.loader.position());  // ends the workers, whose batches take memory
  loop.checkpoint.save();
  const std::string wanted = read_bytes(path);
  write_bytes(path, old);
  const int64_t calls = test::fail_each_request([&] { loop.checkpoint.save(); },
                                                [&](bool failed) {
                                                  REQUIRE(folder.file_count() == 1);
                                                  REQUIRE(read_bytes(path) == (failed ? old : wanted));
                                                  write_bytes(path, old);
                                                });
  CHECK(calls > 100);
}

TEST_CASE("Checkpoint: metadata of another file change neither the settings nor the parts") {
  const TemporaryFolder folder;
  Generator rng(7);
  Net small(rng, 5), large(rng, 6);
  int64_t step = 3;
  nn::Checkpoint old(folder / "old.safetensors", {{"author", "me"}});
  old.add("model", small).add("step", step).save();
  nn::Checkpoint checkpoint(folder / "new.safetensors", read_safetensors(folder / "old.safetensors").metadata);
  checkpoint.add("model", large).save();
  CHECK_NOTHROW(checkpoint.load());
  CHECK(read_safetensors(folder / "new.safetensors").metadata.at("author") == "me");
}
