#include <linnet/nn/module.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <set>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/error.h>
#include <linnet/core/files/utf8.h>
#include <linnet/ops/array/compare.h>

namespace linnet::nn {

namespace {

std::string join_path(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

/// The label of a module in messages. It is never freed, because a tape that refers to it may outlive the module.
/// Equal labels are stored once.
const char* label_of(const std::string& path, const std::string& kind) {
  static std::mutex mutex;
  static std::set<std::string>& labels = *new std::set<std::string>;
  const std::string own = kind.empty() ? "model" : kind;
  const std::lock_guard lock(mutex);
  return labels.insert(path.empty() ? own : kind.empty() ? path : fmt::format("{} ({})", path, kind)).first->c_str();
}

/// Whether two handles share their elements, as tied weights do.
bool same_elements(const Tensor& a, const Tensor& b) {
  return a.numel() > 0 && detail::view(a).data == detail::view(b).data && a.shape() == b.shape() &&
         a.strides() == b.strides();
}

std::string describe(const Tensor& tensor) {
  return fmt::format("{} {}", to_string(tensor.shape()), name_of(tensor.dtype()));
}

/// The prefix of settings in a file's metadata, before the setting's name in the model.
constexpr const char* kSettings = "linnet.settings.";

/// One line for each difference; layers with the same difference share a line: "different: heads is 4 here and 8
/// there, in blocks.0.attention and 5 more".
std::vector<std::string> describe(const std::vector<DifferentSetting>& differences) {
  std::vector<std::string> lines;
  std::vector<std::vector<std::string>> places;  // the layers of each line
  for (const auto& [path, here, there, note] : differences) {
    const size_t dot = path.rfind('.');
    const std::string name = path.substr(dot == std::string::npos ? 0 : dot + 1);
    const std::string line = fmt::format("different: {} is {} here and {} there{}", name, here,
                                         detail::shortened(there), note.empty() ? "" : " (" + note + ")");
    const size_t known = std::find(lines.begin(), lines.end(), line) - lines.begin();
    if (known == lines.size()) {
      lines.push_back(line);
      places.emplace_back();
    }
    if (dot != std::string::npos) places[known].push_back(path.substr(0, dot));
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!places[i].empty()) lines[i] += ", in " + places[i].front();
    if (places[i].size() > 1) lines[i] += fmt::format(" and {} more", places[i].size() - 1);
  }
  return lines;
}

}  // namespace

std::string Setting::text_of(bool value) { return fmt::to_string(value); }
std::string Setting::text_of(int64_t value) { return fmt::to_string(value); }
std::string Setting::text_of(uint64_t value) { return fmt::to_string(value); }
std::string Setting::text_of(float value) { return fmt::to_string(value); }
std::string Setting::text_of(double value) { return fmt::to_string(value); }

Module::Module(Generator& rng, DType dtype, Device device, std::string kind)
    : parent_(nullptr),
      generator_(&rng),
      dtype_(computed_in(dtype)),
      activation_dtype_(dtype),
      device_(device),
      kind_(std::move(kind)),
      label_(label_of("", kind_)) {
  if (!is_floating(dtype)) {
    throw DTypeError(fmt::format("a model of {}: it must be float32, float64, or bfloat16 with float32 parameters",
                                 name_of(dtype)));
  }
  if (dtype == DType::bfloat16 && device == Device::cpu) {
    throw DTypeError("a model of bfloat16 on the CPU: bfloat16 is for GPUs alone; use float32, or Device::cuda");
  }
}

Module::Module(Module& parent, std::string name, std::string kind)
    : parent_(&parent),
      generator_(parent.generator_),
      dtype_(parent.dtype_),
      activation_dtype_(parent.activation_dtype_),
      device_(parent.device_),
      name_(std::move(name)),
      path_(join_path(parent.path_, name_)),
      kind_(std::move(kind)),
      label_(label_of(path_, kind_)),
      training_(parent.training_) {
  parent.check_name(name_);
  parent.children_.push_back(this);
}

Module::~Module() {
  if (parent_ != nullptr) std::erase(parent_->children_, this);
  for (Module* child : children_) child->parent_ = nullptr;  // a child may outlive this
}

void Module::check_name(const std::string& name) const {
  if (name.empty() || name.find('.') != std::string::npos) {
    throw ValueError(
        fmt::format("'{}' cannot name a part of '{}': names are not empty and have no dots", name, label_));
  }
  const bool taken = std::any_of(slots_.begin(), slots_.end(), [&](const Slot& s) { return s.name == name; }) ||
                     std::any_of(children_.begin(), children_.end(), [&](Module* m) { return m->name_ == name; });
  if (taken) throw ValueError(fmt::format("'{}' has a '{}' already; choose another name", label_, name));
}

size_t Module::position(int64_t i, size_t size) const {
  const auto count = static_cast<int64_t>(size);
  if (i < -count || i >= count) {
    throw IndexError(
        fmt::format("'{}' has no module {}: {}", label_, i,
                    count == 0 ? "it is empty" : fmt::format("they run from {} to {}", -count, count - 1)));
  }
  return static_cast<size_t>(i < 0 ? i + count : i);
}

void Module::refuse_type(size_t i, const Module* module) const {
  std::string there = "a function";
  if (module != nullptr) there = module->kind_.empty() ? "a module" : "the module " + module->kind_;
  throw ValueError(fmt::format("'{}' has {} at position {}, which is of another type", label_, there, i));
}

void Module::refuse_key(const std::string& key, const std::vector<std::string>& keys) const {
  throw IndexError(fmt::format("'{}' has no module '{}': {}", label_, key,
                               keys.empty() ? "it is empty" : fmt::format("its keys are {}", fmt::join(keys, ", "))));
}

Tensor Module::parameter(const std::string& name, Tensor tensor) {
  check_name(name);
  tensor.set_requires_grad();
  return slots_.emplace_back(name, std::move(tensor), true).tensor;
}

Tensor Module::buffer(const std::string& name, Tensor tensor) {
  check_name(name);
  return slots_.emplace_back(name, std::move(tensor), false).tensor;
}

template <class Visit>
void Module::visit_slots(const std::string& prefix, const Visit& visit) const {
  for (const Slot& slot : slots_) visit(join_path(prefix, slot.name), slot);
  for (const Module* child : children_) child->visit_slots(join_path(prefix, child->name_), visit);
}

std::vector<NamedModule> Module::named_modules() {
  std::vector<NamedModule> result;
  add_modules("", result);
  return result;
}

void Module::add_modules(const std::string& prefix, std::vector<NamedModule>& to) {
  to.push_back({prefix, this});
  for (Module* const child : children_) child->add_modules(join_path(prefix, child->name_), to);
}

std::vector<Module*> Module::modules() {
  std::vector<Module*> result;
  for (const NamedModule& named : named_modules()) result.push_back(named.module);
  return result;
}

std::vector<NamedTensor> Module::named_tensors(bool parameters, std::map<std::string, std::string>* tied) const {
  std::vector<NamedTensor> result;
  visit_slots("", [&](const std::string& name, const Slot& slot) {
    if (slot.is_parameter != parameters) return;
    const auto first = std::ranges::find_if(
        result, [&](const NamedTensor& other) { return same_elements(other.tensor, slot.tensor); });
    if (first == result.end())
      result.push_back({name, slot.tensor});
    else if (tied != nullptr)
      tied->emplace(name, first->name);
  });
  return result;
}

std::map<std::string, std::string> Module::tied_names() const {
  std::map<std::string, std::string> tied;
  named_tensors(/*parameters=*/true, &tied);
  named_tensors(/*parameters=*/false, &tied);
  return tied;
}

std::vector<NamedTensor> Module::named_parameters() const { return named_tensors(true); }
std::vector<NamedTensor> Module::named_buffers() const { return named_tensors(false); }

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> result;
  for (const NamedTensor& parameter : named_parameters()) result.push_back(parameter.tensor);
  return result;
}

void Module::freeze() {
  for (Tensor& parameter : parameters()) parameter.set_requires_grad(false);
}

void Module::unfreeze() {
  for (Tensor& parameter : parameters()) parameter.set_requires_grad(true);
}

void Module::train(bool on) {
  training_ = on;
  for (Module* child : children_) child->train(on);
}

void Module::begin_step(int64_t step) {
  if (training_) on_step(step);
  for (Module* child : children_) child->begin_step(step);
}

void Module::add_settings(const std::string& prefix, std::vector<Setting>& to) const {
  for (Setting& setting : settings()) {
    setting.name = join_path(prefix, setting.name);
    to.push_back(std::move(setting));
  }
  for (const Module* child : children_) child->add_settings(join_path(prefix, child->name_), to);
}

std::map<std::string, std::string> Module::settings_metadata(const std::string& part) const {
  std::map<std::string, std::string> texts;
  for (const Setting& setting : named_settings()) texts[kSettings + join_path(part, setting.name)] = setting.value;
  return texts;
}

/// Settings that only one side has are ignored: another version of linnet may have more or fewer.
std::vector<DifferentSetting> Module::different_settings(const std::map<std::string, std::string>& metadata,
                                                         const std::string& part) const {
  std::vector<DifferentSetting> result;
  for (const Setting& setting : named_settings()) {
    const auto found = metadata.find(kSettings + join_path(part, setting.name));
    if (setting.may_differ || found == metadata.end() || found->second == setting.value) continue;
    result.push_back({setting.name, setting.value, found->second, setting.note});
  }
  return result;
}

std::vector<Setting> Module::named_settings() const {
  std::vector<Setting> result;
  add_settings("", result);
  return result;
}

TensorMap Module::state() const {
  TensorMap result;
  for (const NamedTensor& parameter : named_parameters()) result[parameter.name] = parameter.tensor.detach();
  for (const NamedTensor& buffer : named_buffers()) result[buffer.name] = buffer.tensor;
  return result;
}

namespace {

/// The most unexpected names that a message lists, since a file may have millions.
constexpr size_t kMostListed = 1000;

/// The prefix, with its dot, that `from` has before every name of `to`; empty if there is none.
std::string common_prefix(const TensorMap& to, const TensorMap& from) {
  if (to.empty()) return "";
  for (const auto& [name, tensor] : from) {
    if (!name.ends_with("." + to.begin()->first)) continue;
    const std::string prefix = name.substr(0, name.size() - to.begin()->first.size());
    const auto is_there = [&](const auto& entry) { return from.contains(prefix + entry.first); };
    if (std::ranges::all_of(to, is_there)) return prefix;
  }
  return "";
}

/// Whether two tensors have the same values, NaN included.
bool same_values(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         allclose(a, b.to(a.device()), /*rtol=*/0, /*atol=*/0, /*equal_nan=*/true);
}

/// Leaves of each tensor in `from` only the first of its `tied` names. Returns a problem for each pair of names with
/// different values.
std::vector<std::string> merge_tied(TensorMap& from, const std::map<std::string, std::string>& tied) {
  std::vector<std::string> problems;
  for (const auto& [name, first] : tied) {
    auto entry = from.extract(name);
    if (entry.empty()) continue;
    const auto there = from.find(first);
    if (there == from.end()) {
      entry.key() = first;
      from.insert(std::move(entry));
    } else if (!same_values(there->second, entry.mapped())) {
      problems.push_back(
          fmt::format("different: {} and {} are one tensor here and have different values there", first, name));
    }
  }
  return problems;
}

/// copy_state, which also takes the other names of `tied` tensors and reports the settings `different`.
IncompatibleKeys copy_state_and_report(TensorMap to, TensorMap from, const std::map<std::string, std::string>& tied,
                                       const std::vector<DifferentSetting>& different, const std::string& source,
                                       const LoadOptions& options) {
  IncompatibleKeys keys;
  keys.settings = different;
  std::vector<std::string> problems = options.strict ? describe(different) : std::vector<std::string>();
  std::ranges::copy(merge_tied(from, tied), std::back_inserter(problems));
  for (const auto& [name, tensor] : to) {
    const auto found = from.find(name);
    if (found == from.end()) {
      keys.missing_keys.push_back(name);
      if (options.strict) problems.push_back(fmt::format("missing: {} {}", name, describe(tensor)));
    } else if (found->second.shape() != tensor.shape() || found->second.dtype() != tensor.dtype()) {
      problems.push_back(
          fmt::format("different: {} is {} here and {} there", name, describe(tensor), describe(found->second)));
    }
  }
  for (const auto& [name, tensor] : from) {
    if (to.contains(name)) continue;
    keys.unexpected_keys.push_back(name);
    if (!options.strict || keys.unexpected_keys.size() > kMostListed) continue;
    problems.push_back(fmt::format("unexpected: {} {}", detail::shortened(name), describe(tensor)));
  }
  const size_t unexpected = keys.unexpected_keys.size();
  if (options.strict && unexpected > kMostListed) {
    problems.push_back(fmt::format("unexpected: {} more", unexpected - kMostListed));
  }
  if (!problems.empty()) {
    if (const std::string prefix = common_prefix(to, from); !prefix.empty()) {
      problems.push_back(fmt::format(
          "the names there begin with '{}'; nn::Checkpoint loads a model from the file of a whole run, and "
          "names from elsewhere can be changed between read_safetensors and load_state",
          detail::shortened(prefix)));
    }
    throw ValueError(
        fmt::format("{} does not fit the model; build the model with the settings of the saved one\n  {}\n", source,
                    fmt::join(problems, "\n  ")));
  }
  const NoGrad guard;
  std::vector<std::pair<Tensor, Tensor>> copies;  // all are on the device before the first one is copied
  for (auto& [name, tensor] : to) {
    const auto found = from.find(name);
    if (found == from.end()) continue;
    const Device device = tensor.device();
    copies.emplace_back(std::move(tensor), found->second.to(device));
  }
  for (auto& [tensor, value] : copies) tensor.copy_(value);
  return keys;
}

}  // namespace

IncompatibleKeys copy_state(TensorMap to, const TensorMap& from, const std::string& source,
                            const LoadOptions& options) {
  return copy_state_and_report(std::move(to), from, {}, {}, source, options);
}

IncompatibleKeys Module::load_state(const TensorMap& state, const LoadOptions& options, Where where) {
  const Call call("load_state", where);
  return copy_state_and_report(this->state(), state, tied_names(), {}, "the state", options);
}

IncompatibleKeys Module::load_state(const Module& from, const LoadOptions& options, Where where) {
  const Call call("load_state", where);
  return copy_state_and_report(state(), from.state(), tied_names(), different_settings(from.settings_metadata()),
                               "the other module", options);
}

void Module::save(const std::filesystem::path& path, const std::map<std::string, std::string>& metadata,
                  Where where) const {
  Safetensors content{.tensors = state(), .metadata = settings_metadata()};
  // `metadata` may come from another file and have its settings; `insert` then keeps this model's.
  content.metadata.insert(metadata.begin(), metadata.end());
  write_safetensors(path, content, where);
}

IncompatibleKeys Module::load(const std::filesystem::path& path, const LoadOptions& options, Where where) {
  const Call call("load", where);
  Safetensors file = read_safetensors(path, where);
  return copy_state_and_report(state(), std::move(file.tensors), tied_names(), different_settings(file.metadata),
                               path.string(), options);
}

}  // namespace linnet::nn
