#pragma once

#include <concepts>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <linnet/core/files/safetensors.h>
#include <linnet/core/random/generator.h>
#include <linnet/core/refused.h>
#include <linnet/core/tensor.h>

namespace linnet::nn {

/// A tensor and its name in a model, such as `blocks.0.mlp.fc1.weight`.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// An option of a module on which the meaning of its weights depends: `{"heads", 4}`.
struct Setting {
  std::string name, value;  ///< UTF-8
  bool may_differ = false;  ///< the value does not change what the weights compute in evaluation, as with dropout
  std::string note = {};    ///< an explanation of the value for errors: which name stands for which number

  Setting(std::string name_, std::string value_, bool may_differ_ = false, std::string note_ = {})
      : name(std::move(name_)), value(std::move(value_)), may_differ(may_differ_), note(std::move(note_)) {}
  /// A setting whose value is a bool, or a number with as many digits as distinguish it from all others of its type.
  template <class Number>
    requires std::is_arithmetic_v<Number>
  Setting(std::string name_, Number number, bool may_differ_ = false, std::string note_ = {})
      : Setting(std::move(name_), text_of(number), may_differ_, std::move(note_)) {}

 private:
  template <class Number>
  static std::string text_of(Number number);  // of the types that module.cpp names
};

/// Options of loading a state.
struct LoadOptions {
  bool strict = true;  ///< whether names, and the settings in a file, must be the same as the model's
};

/// A setting whose value differs between the model and the source of its weights.
struct DifferentSetting {
  std::string name;         ///< in the model: `blocks.0.attention.heads`
  std::string here, there;  ///< its values in the model and in the source
  std::string note = {};    ///< the model's Setting::note
};

/// The names in which a loaded state and the model differ; empty after a strict load.
struct IncompatibleKeys {
  std::vector<std::string> missing_keys;     ///< only in the model, whose tensors stay as they were
  std::vector<std::string> unexpected_keys;  ///< only in the state
  std::vector<DifferentSetting> settings;
};

/// Copies values by name into the tensors of `to`. Errors call `from` by the name `source`.
///
/// Throws: ValueError, before anything is copied, with all tensors of another shape or dtype and, where `strict`, all
/// names that only one side has.
IncompatibleKeys copy_state(TensorMap to, const TensorMap& from, const std::string& source,
                            const LoadOptions& options = {});

class Module;

/// A type that cannot be the parent of a layer.
template <class T>
concept NotAModule = !std::derived_from<std::remove_cvref_t<T>, Module>;

/// The base class of layers and models. It knows their parameters and submodules.
///
///     struct Mlp : nn::Module {
///       explicit Mlp(Generator& rng) : Module(rng) {}
///       nn::Linear fc1{*this, "fc1", 784, 128};
///       nn::Linear fc2{*this, "fc2", 128, 10};
///       Tensor operator()(const Tensor& x) { return fc2(gelu(fc1(x))); }
///     };
///
/// A module registers itself with its parent, the first argument of its constructor, so it cannot be copied or moved.
/// A ModuleList holds a list of modules. `b.load_state(a)` copies weights.
class Module {
 public:
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module();

  // ---- Parameters and buffers ----

  /// All parameters of this module and its submodules, in the order of construction. A parameter that several modules
  /// share comes once, under its first name.
  std::vector<NamedTensor> named_parameters() const;
  /// The parameters without names, for an optimizer.
  std::vector<Tensor> parameters() const;
  /// The tensors of the state that are not trained.
  std::vector<NamedTensor> named_buffers() const;

  /// Stops tracking gradients of all parameters, so that training does not change them.
  void freeze();
  /// Tracks gradients of all parameters again.
  void unfreeze();

  // ---- Mode ----

  /// Switches to training mode, in which every module starts, or to evaluation mode, in which dropout does nothing.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }

  // ---- State ----

  /// Parameters and buffers by name. The tensors share their elements with the module.
  TensorMap state() const;
  /// Copies values into parameters and buffers. With `{.strict = false}` names may be missing or unexpected, and are
  /// returned. A TensorMap has no settings, so none are compared.
  ///
  /// Throws: ValueError, before anything is copied, unless `state` has exactly the module's names, shapes and dtypes.
  /// The message has all that are missing, unexpected or different.
  IncompatibleKeys load_state(const TensorMap& state, const LoadOptions& options = {}, Where where = {});
  /// Copies the parameters and buffers of another module, with the checks of `load`.
  ///
  /// Throws: as above; ValueError also where `from` has other settings.
  IncompatibleKeys load_state(const Module& from, const LoadOptions& options = {}, Where where = {});
  /// The options of the module that its tensors' names and shapes do not show. A loaded file must have the same. A
  /// module of your own overrides this: `return {{"eps", eps_}, {"act", "gelu"}};`.
  virtual std::vector<Setting> settings() const { return {}; }
  /// The settings of this module and its submodules, with names such as `blocks.0.attention.heads`.
  std::vector<Setting> named_settings() const;
  /// named_settings() as metadata of a file: `linnet.settings.blocks.0.attention.heads` is `4`. `save` writes them.
  /// Code that writes state() to a file itself should write them too.
  std::map<std::string, std::string> settings_metadata() const;
  /// The settings in a file's metadata that differ from this model's, without those that may differ.
  std::vector<DifferentSetting> different_settings(const std::map<std::string, std::string>& metadata) const;
  /// Writes the state as a safetensors file (see write_safetensors), with `metadata` and settings_metadata().
  ///
  /// Throws: IoError.
  void save(const std::filesystem::path& path, const std::map<std::string, std::string>& metadata = {},
            Where where = {}) const;
  /// Reads a file of `save`, like `load_state`. A file without settings is taken too.
  ///
  /// Throws: as load_state; ValueError also where the file has different_settings(); IoError for a file that is
  /// missing or damaged.
  IncompatibleKeys load(const std::filesystem::path& path, const LoadOptions& options = {}, Where where = {});

  // ---- Description ----

  /// A table of the modules and their parameters, with totals.
  std::string summary() const;
  /// The module's path and kind for errors: `fc1 (Linear 784→128)`.
  const char* label() const { return label_; }
  /// The module's path in the model: `blocks.0.attention`. Empty for the model itself.
  const std::string& path() const { return path_; }
  /// The kind of the module: `Linear 784→128`. Empty unless its constructor gave one.
  const std::string& kind() const { return kind_; }

  /// The generator of the whole model, which initialisers and dropout draw from.
  Generator& generator() const { return *generator_; }
  /// The parameters' dtype.
  DType dtype() const { return dtype_; }
  /// The parameters' device.
  Device device() const { return device_; }
  /// The dtype of tokens between layers: dtype(), or bfloat16 in a bfloat16 model, whose parameters are float32. Call
  /// layers of your own with `x.to(activation_dtype())`; the models in this folder convert themselves.
  DType activation_dtype() const { return activation_dtype_; }

 protected:
  /// The outermost module of a model. `rng` must outlive it. All submodules have its dtypes and device.
  ///
  /// Dtypes: float32, float64, or on a GPU bfloat16, which stands for float32 parameters and bfloat16 activations.
  /// Throws: DTypeError for other dtypes, and for bfloat16 on the CPU.
  explicit Module(Generator& rng, DType dtype = DType::float32, Device device = Device::cpu, std::string kind = "");
  /// A submodule of `parent`, which must outlive it.
  ///
  /// Throws: ValueError when the name is taken in the parent, empty or has a dot.
  Module(Module& parent, std::string name, std::string kind = "");

  /// Registers a parameter, makes it track gradients, and returns it.
  ///
  /// Throws: ValueError when the name is taken, empty or has a dot.
  Tensor parameter(const std::string& name, Tensor tensor);
  /// Registers a tensor that is part of the state but not trained, and returns it. Update it in place, with `copy_`:
  /// an assignment to the returned handle does not change the registered tensor.
  Tensor buffer(const std::string& name, Tensor tensor);

  /// The compiler's message for a layer outside of a module: `nn::Linear fc(rng, 3, 4)`, `nn::LayerNorm norm(64)`.
  template <class First>
  static Generator& refuse_outside_of_a_module(First&) {
    static_assert(detail::refused<First>,
                  "a layer is a part of a module: write struct Net : nn::Module { explicit Net(Generator& rng) : "
                  "Module(rng) {} nn::Linear fc{*this, \"fc\", 3, 4}; }, and likewise for other layers");
    std::abort();
  }

 private:
  struct Slot {
    std::string name;
    Tensor tensor;
    bool is_parameter;
  };

  void check_name(const std::string& name) const;
  /// Calls `visit(full name, slot)` for the slots of this module and its submodules, depth first.
  template <class Visit>
  void visit_slots(const std::string& prefix, const Visit& visit) const;
  std::vector<NamedTensor> named_tensors(bool parameters) const;
  void add_settings(const std::string& prefix, std::vector<Setting>& to) const;
  void add_summary_rows(std::vector<std::vector<std::string>>& rows, const std::string& path) const;

  Module* parent_;
  Generator* generator_;
  DType dtype_, activation_dtype_;
  Device device_;
  std::string name_;  // in the parent
  std::string path_;  // in the model
  std::string kind_;
  const char* label_;
  bool training_ = true;
  std::vector<Slot> slots_;
  std::vector<Module*> children_;
};

/// A list of modules of one type, named by their position. Their addresses do not change.
///
///     struct Layers : nn::Module {
///       nn::ModuleList<nn::Block> blocks{*this, "blocks"};
///       Layers(Generator& rng, int64_t layers, const nn::BlockConfig& config) : Module(rng) {
///         for (int64_t i = 0; i < layers; ++i) blocks.add(config);  // Block(blocks, "<i>", config)
///       }
///     };
template <class T>
class ModuleList : public Module {
 public:
  ModuleList(Module& parent, std::string name) : Module(parent, std::move(name)) {}

  /// Constructs a T with the list as its parent, its position as its name, and `args`.
  template <class... Args>
  T& add(Args&&... args) {
    return items_.emplace_back(*this, std::to_string(items_.size()), std::forward<Args>(args)...);
  }

  int64_t size() const { return static_cast<int64_t>(items_.size()); }  ///< the number of modules
  /// Module `i`, from 0 to size() − 1. The range is not checked.
  T& operator[](int64_t i) { return items_[static_cast<size_t>(i)]; }
  const T& operator[](int64_t i) const { return items_[static_cast<size_t>(i)]; }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::deque<T> items_;
};

}  // namespace linnet::nn
