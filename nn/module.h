#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <linnet/core/files/safetensors.h>
#include <linnet/core/random/generator.h>
#include <linnet/core/refused.h>
#include <linnet/core/tensor.h>
#include <linnet/nn/refused_members.h>

namespace linnet::nn {

/// A tensor and its name in a model, such as `blocks.0.mlp.fc1.weight`.
struct NamedTensor {
  std::string name;  ///< with dots between the modules
  Tensor tensor;     ///< a parameter or a buffer
};

/// An option that a module was built with and that changes what its weights compute: `{"heads", 4}`.
struct Setting {
  std::string name, value;  ///< UTF-8
  bool may_differ = false;  ///< whether another value gives the same results in evaluation, as dropout's rate does
  std::string note = {};    ///< added to an error about a different value, such as what its numbers mean
  /// A setting with a text.
  Setting(std::string name_, std::string value_, bool may_differ_ = false, std::string note_ = {})
      : name(std::move(name_)), value(std::move(value_)), may_differ(may_differ_), note(std::move(note_)) {}
  /// A setting with a bool, or with a number, written with enough digits to restore it exactly. Integers of any type
  /// are numbers, uint8_t and char too.
  template <class Number>
    requires std::integral<Number> || std::same_as<Number, float> || std::same_as<Number, double>
  Setting(std::string name_, Number number, bool may_differ_ = false, std::string note_ = {})
      : Setting(std::move(name_), text_of(widened(number)), may_differ_, std::move(note_)) {}

 private:
  template <class Number>
  static auto widened(Number number) {
    if constexpr (std::same_as<Number, bool> || std::floating_point<Number>)
      return number;
    else
      return static_cast<std::conditional_t<std::is_signed_v<Number>, int64_t, uint64_t>>(number);
  }
  static std::string text_of(bool value);
  static std::string text_of(int64_t value);
  static std::string text_of(uint64_t value);
  static std::string text_of(float value);
  static std::string text_of(double value);
};

/// How a state is loaded.
struct LoadOptions {
  bool strict = true;  ///< whether names, and the settings in a file, must be the same on both sides
};

/// A setting whose value differs between the model and the source of the weights.
struct DifferentSetting {
  std::string name;         ///< in the model: `blocks.0.attention.heads`
  std::string here, there;  ///< its values in the model and in the source
  std::string note = {};    ///< the model's Setting::note
};

/// The differences between the model and a loaded state; empty after a strict load.
struct IncompatibleKeys {
  std::vector<std::string> missing_keys;     ///< names of the model that the state lacks; their tensors do not change
  std::vector<std::string> unexpected_keys;  ///< names of the state that the model lacks
  std::vector<DifferentSetting> settings;    ///< settings with different values
};

/// Copies values by name into the tensors of `to`. Throws ValueError, before it copies any, for tensors of another
/// shape or dtype and, with `strict`, for names that only one side has. The message lists all of them, but of the
/// names that `to` lacks only the first thousand and the number of the others. It calls `from` by the name `source`.
IncompatibleKeys copy_state(TensorMap to, const TensorMap& from, const std::string& source,
                            const LoadOptions& options = {});

class Module;

/// A module and its name in a model, such as `blocks.0.attention`.
struct NamedModule {
  std::string name;  ///< with dots between the modules; empty for the model itself
  Module* module;    ///< never null
};

/// A type that cannot be the parent of a layer.
template <class T>
concept NotAModule = !std::derived_from<std::remove_cvref_t<T>, Module>;

/// The base of layers and models: it knows their parameters, and those of the modules inside them.
///
///     struct Mlp : nn::Module {
///       explicit Mlp(Generator& rng) : Module(rng) {}
///       nn::Linear fc1{*this, "fc1", 784, 128};
///       nn::Linear fc2{*this, "fc2", 128, 10};
///       Tensor operator()(const Tensor& x) { return fc2(gelu(fc1(x))); }
///     };
///
/// A module registers itself with its parent, the first argument of its constructor. So it can be neither copied nor
/// moved: keep several in a ModuleList, and copy weights with `b.load_state(a)`.
class Module : public detail::RefusedModuleMembers {
 public:
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module();

  // ---- Parameters and buffers ----

  /// Every parameter of this module, in the order of construction, and then those of each module inside it, as in
  /// PyTorch. A tied parameter, which is registered under several names, comes once, under the first of them.
  std::vector<NamedTensor> named_parameters() const;
  /// The parameters without their names, as an optimizer takes them.
  std::vector<Tensor> parameters() const;
  /// Tensors that belong to the state but are not trained.
  std::vector<NamedTensor> named_buffers() const;

  /// Stops tracking gradients of all parameters, so that training leaves them as they are.
  void freeze();
  void unfreeze();  ///< tracks them again

  // ---- Modules ----

  /// This module and all modules inside it, in the order of construction, each before the modules that it contains.
  ///
  ///     for (nn::Module* module : model.modules()) {
  ///       if (auto* linear = dynamic_cast<nn::Linear*>(module)) nn::init::zeros_(linear->bias());
  ///     }
  std::vector<Module*> modules();
  /// The same with their names, as in named_parameters().
  std::vector<NamedModule> named_modules();

  // ---- Mode ----

  /// Switches between training, which every module starts in, and evaluation, where dropout does nothing.
  void train(bool on = true);
  void eval() { train(false); }                ///< as train(false)
  bool training() const { return training_; }  ///< whether it is training
  /// Tells the model that training step `step` begins, counted from 0. It is for parts that change between optimizer
  /// steps, such as a Performer's random features; most models have none, and in evaluation nothing changes. Call it
  /// before the first forward of the step, and outside of a Recording. The change depends on the step and the
  /// generator alone, so a run that is resumed with both is the same as one that never stopped.
  void begin_step(int64_t step);

  // ---- State ----

  /// Parameters and buffers by name, as in named_parameters(): a tied one has only its first name, where PyTorch's
  /// state_dict has all of them. The tensors share their elements with the module.
  TensorMap state() const;
  /// Copies values into parameters and buffers. Throws ValueError, before it copies any, unless `state` has
  /// exactly their names, shapes and dtypes; the message lists all that are missing, unexpected or different. With
  /// `{.strict = false}` missing and unexpected names are no error and are returned. A tied parameter may have any of
  /// its names in `state`, or several; it is a ValueError if their values differ. A TensorMap has no settings, so
  /// none are compared.
  IncompatibleKeys load_state(const TensorMap& state, const LoadOptions& options = {}, Where where = {});
  /// Copies the parameters and buffers of another module. Like `load`, it also throws ValueError where that has other
  /// settings.
  IncompatibleKeys load_state(const Module& from, const LoadOptions& options = {}, Where where = {});
  /// The options that the module was built with and that the names and shapes of its tensors do not show; loading
  /// weights compares them. A module of your own overrides it: `return {{"eps", eps_}, {"act", "gelu"}};`.
  virtual std::vector<Setting> settings() const { return {}; }
  /// The settings of this module and of those inside it, with names such as `blocks.0.attention.heads`.
  std::vector<Setting> named_settings() const;
  /// named_settings() as metadata of a file: `linnet.settings.blocks.0.attention.heads` is `4`. With
  /// `part` = `encoder`, in a file of several models, it is `linnet.settings.encoder.blocks.0.attention.heads`.
  /// `save` writes them. If you write state() into a file of your own, write them too.
  std::map<std::string, std::string> settings_metadata(const std::string& part = "") const;
  /// The settings in a file's metadata whose values are not this model's, except settings that may differ. `part` is
  /// as in settings_metadata().
  std::vector<DifferentSetting> different_settings(const std::map<std::string, std::string>& metadata,
                                                   const std::string& part = "") const;
  /// Writes the state as a safetensors file (see write_safetensors), with settings_metadata() and `metadata` as its
  /// metadata. Throws IoError.
  void save(const std::filesystem::path& path, const std::map<std::string, std::string>& metadata = {},
            Where where = {}) const;
  /// Reads a file that `save` wrote, like `load_state`. Also throws ValueError where the file has
  /// different_settings(); a file without settings is accepted. Throws IoError for a file that is missing or damaged.
  IncompatibleKeys load(const std::filesystem::path& path, const LoadOptions& options = {}, Where where = {});

  // ---- Description ----

  /// A table of the modules and their parameters, with totals.
  std::string summary() const;
  /// What errors call this module: its name in the model and its kind, `fc1 (Linear 784→128)`.
  const char* label() const { return label_; }
  /// Its name in the model: `blocks.0.attention`. Empty for the model itself.
  const std::string& path() const { return path_; }
  /// Its kind: `Linear 784→128`. Empty when its constructor gave none.
  const std::string& kind() const { return kind_; }

  /// The generator of the whole model, which initialisers and dropout draw from.
  Generator& generator() const { return *generator_; }
  /// The dtype of the parameters, and their device.
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  /// The dtype of the activations between layers: dtype(), or bfloat16 in a model of bfloat16, whose parameters are
  /// float32. In a model of your own, give its layers `x.to(activation_dtype())`; linnet's models do so themselves.
  DType activation_dtype() const { return activation_dtype_; }

 protected:
  /// The outermost module of a model. `rng` must outlive it. All modules inside have its dtypes and device. A model
  /// of bfloat16 has float32 parameters and activations of bfloat16, on a GPU. Throws DTypeError for bfloat16 on the
  /// CPU, and for dtypes other than float32, float64 and bfloat16.
  explicit Module(Generator& rng, DType dtype = DType::float32, Device device = Device::cpu, std::string kind = "");
  /// A module inside `parent`, which must outlive it. Throws ValueError when the parent has something of that
  /// name already, or when the name is empty or has a dot.
  Module(Module& parent, std::string name, std::string kind = "");

  /// Registers a parameter, makes it track gradients, and returns it. Throws ValueError when the name is taken, empty
  /// or has a dot, DTypeError unless the dtype is floating, and AutogradError for the result of a recorded op.
  Tensor parameter(const std::string& name, Tensor tensor);
  /// Registers a tensor that is part of the state but not trained, and returns a handle to it. Update it in place,
  /// with `copy_`: assigning another tensor to the handle does not change the registered one, which is saved and
  /// loaded.
  Tensor buffer(const std::string& name, Tensor tensor);

  /// What this module alone does when step `step` begins; see begin_step. It is called in training only.
  virtual void on_step(int64_t) {}

  /// The position of module `i` of a list; a negative `i` counts from the end. Throws IndexError if there is none.
  size_t position(int64_t i, size_t size) const;
  /// Throws ValueError for module `i` of a list, which has another type than the caller expects.
  [[noreturn]] void refuse_type(size_t i, const Module* module) const;
  /// Throws IndexError for a key that a dict does not have.
  [[noreturn]] void refuse_key(const std::string& key, const std::vector<std::string>& keys) const;

  /// The compiler error for a layer outside of a module: `nn::Linear fc(rng, 3, 4)`, `nn::LayerNorm norm(64)`.
  template <class First>
  static Generator& refuse_outside_of_a_module(First&) {
    static_assert(detail::refused<First>,
                  "a layer is a part of a module: write struct Net : nn::Module { explicit Net(Generator& rng) : "
                  "Module(rng) {} nn::Linear fc{*this, \"fc\", 3, 4}; }, and likewise for other layers");
    std::abort();
  }

 private:
  friend class Evaluation;

  struct Slot {
    std::string name;  ///< with dots between the modules
    Tensor tensor;     ///< a parameter or a buffer
    bool is_parameter;
  };

  void check_name(const std::string& name) const;
  void add_modules(const std::string& prefix, std::vector<NamedModule>& to);
  /// Calls `visit(full name, slot)` for the slots of this module and those inside, depth first.
  template <class Visit>
  void visit_slots(const std::string& prefix, const Visit& visit) const;
  /// The parameters or the buffers. Adds the other names of tied ones to `tied`, each with the tensor's first name.
  std::vector<NamedTensor> named_tensors(bool parameters, std::map<std::string, std::string>* tied = nullptr) const;
  /// The other names of all tied tensors, each with the first name.
  std::map<std::string, std::string> tied_names() const;
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

/// A list of modules of one type, named by their position: `blocks.0.weight`. Their addresses are stable.
///
///     struct Stack : nn::Module {
///       Stack(Generator& rng, int64_t layers, const nn::BlockConfig& config) : Module(rng) {
///         for (int64_t i = 0; i < layers; ++i) blocks.add(config);  // Block(blocks, "<i>", config)
///       }
///       nn::ModuleList<nn::Block> blocks{*this, "blocks"};
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

  int64_t size() const { return static_cast<int64_t>(items_.size()); }  ///< how many
  /// Module `i`; a negative `i` counts from the end. Throws IndexError unless −size() ≤ i < size().
  T& operator[](int64_t i) { return items_[position(i, items_.size())]; }
  const T& operator[](int64_t i) const { return items_[position(i, items_.size())]; }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

  template <class... Args>
  void append(const Args&...) {
    static_assert(detail::refused<Args...>, "a list constructs its modules: write list.add(arguments…)");
  }
  template <class... Args>
  void push_back(const Args&...) {
    static_assert(detail::refused<Args...>, "a list constructs its modules: write list.add(arguments…)");
  }

 private:
  std::deque<T> items_;
};

/// Modules of one type by key: `heads.digits.weight`. They keep the order in which they were added, and their
/// addresses are stable.
///
///     struct TwoTasks : nn::Module {
///       explicit TwoTasks(Generator& rng) : Module(rng) {
///         heads.add("digits", 64, 10);  // Linear(heads, "digits", 64, 10)
///         heads.add("letters", 64, 26);
///       }
///       nn::ModuleDict<nn::Linear> heads{*this, "heads"};
///       Tensor operator()(const Tensor& x, const std::string& task) { return heads[task](x); }
///     };
template <class T>
class ModuleDict : public Module {
 public:
  ModuleDict(Module& parent, std::string name) : Module(parent, std::move(name)) {}

  /// Constructs a T with the dict as its parent, `key` as its name, and `args`. Throws ValueError for a key that
  /// exists already, is empty or has a dot.
  template <class... Args>
  T& add(const std::string& key, Args&&... args) {
    return items_
        .emplace_back(std::piecewise_construct, std::forward_as_tuple(key),
                      std::tuple<Module&, const std::string&, Args&&...>(*this, key, std::forward<Args>(args)...))
        .second;
  }

  int64_t size() const { return static_cast<int64_t>(items_.size()); }  ///< how many
  /// Whether there is a module of this key.
  bool contains(const std::string& key) const {
    return std::any_of(begin(), end(), [&](const auto& item) { return item.first == key; });
  }
  /// In the order in which they were added.
  std::vector<std::string> keys() const {
    std::vector<std::string> result;
    for (const auto& [key, module] : items_) result.push_back(key);
    return result;
  }
  /// The module of a key. Throws IndexError for an unknown key.
  T& operator[](const std::string& key) { return const_cast<T&>(std::as_const(*this)[key]); }
  const T& operator[](const std::string& key) const {
    for (const auto& [known, module] : items_) {
      if (known == key) return module;
    }
    refuse_key(key, keys());
  }
  /// Pairs: `for (auto& [key, module] : dict)`.
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::deque<std::pair<const std::string, T>> items_;
};

}  // namespace linnet::nn
