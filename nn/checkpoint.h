#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <linnet/core/distributed.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>
#include <linnet/nn/data/loader.h>
#include <linnet/nn/module.h>

namespace linnet::nn {

/// A class that gives its state as tensors by name, and loads it again: an optimizer, ReduceLROnPlateau,
/// ExponentialMovingAverage, or a class of your own. If it also has `bool needs(const std::string& name) const`, a
/// checkpoint reads only the tensors for which this is true.
template <class T>
concept HasState = requires(T& part, const T& same, const TensorMap& state) {
  { same.state() } -> std::same_as<TensorMap>;
  part.load_state(state);
};

/// Everything that a training run needs to continue as if it had never stopped, in one safetensors file. A program
/// adds the parts of its run by name. The checkpoint keeps references to them, so they must outlive it:
///
///     nn::Checkpoint checkpoint("run.safetensors");
///     checkpoint.add("model", model).add("optimizer", optimizer);
///     checkpoint.add("generator", rng).add("loader", loader).add("step", step);
///     if (checkpoint.exists()) checkpoint.load();
///     while (step < 1000) {
///       for (auto [x, y] : loader) {
///         backward(cross_entropy(model(x), y));
///         optimizer.step();
///         optimizer.zero_grad();
///         if (++step % 100 == 0) checkpoint.save();  // after the step: the loader has counted its batch
///         if (step == 1000) break;
///       }
///     }
class Checkpoint {
 public:
  /// `metadata` is further text that is written to the file, for its other readers.
  explicit Checkpoint(std::filesystem::path path, std::map<std::string, std::string> metadata = {});
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  /// Adds a part of the run: a model, an object that HasState, a generator, a loader's position, a number, a text, or
  /// a tensor, which is loaded in place. After loading, set again what a state does not hold, such as a beta1 or a
  /// momentum that changes. A loader must be made with the same `batch`, `seed`, `shuffle`, `drop_last` and
  /// `lengths`; inside an epoch its data set must have the same number of examples.
  ///
  /// Throws: ValueError for a name that is taken or empty, or has a dot.
  Checkpoint& add(const std::string& name, Module& model);
  template <HasState T>
    requires(!std::derived_from<T, Module>)
  Checkpoint& add(const std::string& name, T& part) {
    std::function<bool(const std::string&)> needs;
    if constexpr (requires(const std::string& key) { part.needs(key); }) {
      needs = [&part](const std::string& key) { return part.needs(key); };
    }
    return add_state(
        name, [&part] { return part.state(); }, [&part](const TensorMap& state) { part.load_state(state); }, needs);
  }
  Checkpoint& add(const std::string& name, Generator& generator);
  Checkpoint& add(const std::string& name, Loader& loader);
  Checkpoint& add(const std::string& name, int64_t& number);
  Checkpoint& add(const std::string& name, double& number);
  Checkpoint& add(const std::string& name, std::string& text);
  Checkpoint& add(const std::string& name, const Tensor& tensor);

  /// Whether the file exists.
  bool exists() const { return std::filesystem::exists(path_); }

  /// Writes a new file, which replaces the old one when it is complete. Another process that loads it meanwhile reads
  /// either the old file or the new one.
  ///
  /// Throws: IoError when it cannot be written; the old file is then still there.
  void save(Where where = {}) const;
  /// Saves the state of a group in which each rank has a part of it, as with a ZeroRedundancyOptimizer. All ranks
  /// make the call. Rank 0 writes its own tensors and those that only other ranks have, which they send one at a
  /// time.
  ///
  /// Throws: as above, on all ranks.
  void save(ProcessGroup& group, Where where = {}) const;

  /// Restores every part. An error leaves all parts as they were. With `{.strict = false}` the file may have parts
  /// that were not added, so a program can load the model of a checkpoint alone. Only tensors of parts that were
  /// added are read.
  ///
  /// Throws: IoError for a file that is missing, damaged, or without a part's numbers; ValueError for a model with
  /// other settings, a state that does not fit, a loader with other options or another number of examples, and a part
  /// that was not added.
  void load(const LoadOptions& options = {}, Where where = {});

 private:
  using Undo = std::function<void()>;
  struct Part {
    std::string name;
    std::function<void(Safetensors& content)> save;
    std::function<void(const Safetensors& content)> load;    ///< an error leaves the part as it was
    std::function<Undo()> remember;                          ///< returns a function that restores the present values
    std::function<bool(const std::string& key)> needs = {};  ///< whether `load` uses a tensor; empty: it uses all
  };

  Checkpoint& add_part(Part part, const std::vector<std::string>& texts = {});
  Checkpoint& add_state(const std::string& name, const std::function<TensorMap()>& state,
                        const std::function<void(const TensorMap& state)>& load,
                        const std::function<bool(const std::string& key)>& needs);
  Safetensors content() const;
  template <class Number>
  Checkpoint& add_number(const std::string& name, Number& number);
  [[noreturn]] void throw_lacking(const char* what, const std::string& name) const;
  const std::string& text_in(const Safetensors& content, const std::string& name) const;
  template <class Number>
  Number number_in(const Safetensors& content, const std::string& name) const;

  std::filesystem::path path_;
  std::map<std::string, std::string> metadata_;
  std::vector<Part> parts_;
  std::vector<std::string> texts_;  ///< names of the parts' texts in the file's metadata
};

}  // namespace linnet::nn
