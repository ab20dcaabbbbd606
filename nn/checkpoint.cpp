#include <linnet/nn/checkpoint.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/core/files/utf8.h>
#include <linnet/nn/write_of_ranks.h>

/// How the file is laid out: a part's tensors are called `part.name`. Its numbers and texts are in the file's
/// metadata, which also has the settings of a model, as `linnet.settings.part.name`, and the names of all parts.

namespace linnet::nn {
namespace {

/// The metadata key whose value has the names of all parts, separated by dots, because no name has a dot.
constexpr const char* kParts = "linnet.parts";

/// The entries whose names begin with `prefix`, with `other` in its place.
template <class Value>
std::map<std::string, Value> renamed(const std::map<std::string, Value>& all, const std::string& prefix,
                                     const std::string& other) {
  std::map<std::string, Value> result;
  for (auto entry = all.lower_bound(prefix); entry != all.end() && entry->first.starts_with(prefix); ++entry) {
    result[other + entry->first.substr(prefix.size())] = entry->second;
  }
  return result;
}

/// The part that a tensor of a file belongs to, and its name there.
std::pair<std::string, std::string> part_and_key(const std::string& name) {
  const size_t dot = std::min(name.find('.'), name.size());
  return {name.substr(0, dot), dot == name.size() ? "" : name.substr(dot + 1)};
}

/// The names in a file's list of parts; empty for a file of an older version, which has no list.
std::set<std::string> listed_parts(const Safetensors& content) {
  std::set<std::string> parts;
  const auto list = content.metadata.find(kParts);
  if (list == content.metadata.end()) return parts;
  std::istringstream names(list->second);
  for (std::string name; std::getline(names, name, '.');) parts.insert(name);
  return parts;
}

TensorMap part_of(const Safetensors& content, const std::string& name) {
  return renamed(content.tensors, name + ".", "");
}

/// Returns a function that restores the present values of tensors. It allocates nothing, so it works even when an
/// allocation has failed.
std::function<void()> copy_of(const TensorMap& tensors) {
  std::vector<std::pair<Tensor, Tensor>> before;
  for (const auto& [name, tensor] : tensors) before.emplace_back(tensor, tensor.clone());
  return [before = std::move(before)]() mutable {
    for (auto& [tensor, copy] : before) tensor.copy_(copy);
  };
}

/// Calls the last one first.
void undo_all(const std::vector<std::function<void()>>& undo) {
  for (auto last = undo.rbegin(); last != undo.rend(); ++last) (*last)();
}

/// Throws ValueError for a model with other settings. A file without settings is accepted.
void check_same_settings(const Module& model, const Safetensors& content, const std::string& name) {
  const std::vector<DifferentSetting> different = model.different_settings(content.metadata, name);
  if (different.empty()) return;
  const auto& [setting, here, there, note] = different.front();
  throw ValueError(fmt::format("{} is {} here and {} there", setting, here, detail::shortened(there)));
}

/// A hash of a list (FNV-1a over its numbers).
uint64_t hash_of(const std::vector<int64_t>& list) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const int64_t number : list) hash = (hash ^ static_cast<uint64_t>(number)) * 0x100000001b3;
  return hash;
}

/// The options that decide a loader's batches.
std::string order_of(const Loader& loader) {
  const LoaderOptions& options = loader.options();
  const std::vector<int64_t>& lengths = options.lengths;
  return fmt::format("batch {}, seed {}, shuffle {}, drop_last {}{}", options.batch, options.seed, options.shuffle,
                     options.drop_last, lengths.empty() ? "" : fmt::format(", lengths {:016x}", hash_of(lengths)));
}

/// Throws ValueError for a loader with other options, because the position would count different batches.
void check_same_order(const Loader& loader, const std::string& there) {
  const std::string here = order_of(loader);
  if (here == there) return;
  throw ValueError(fmt::format("its options are {} here and {} there", here, detail::shortened(there)));
}

}  // namespace

Checkpoint::Checkpoint(std::filesystem::path path, std::map<std::string, std::string> metadata)
    : path_(std::move(path)), metadata_(std::move(metadata)) {}

Checkpoint& Checkpoint::add_part(Part part, const std::vector<std::string>& texts) {
  const auto taken = [&](const std::string& text) { return std::ranges::find(texts_, text) != texts_.end(); };
  if (part.name.empty() || part.name.find('.') != std::string::npos) {
    throw ValueError(
        fmt::format("'{}' cannot name a part of a checkpoint: names are not empty and have no dots", part.name));
  }
  if (std::ranges::any_of(parts_, [&](const Part& other) { return other.name == part.name; }) ||
      std::ranges::any_of(texts, taken)) {
    throw ValueError(fmt::format("the checkpoint has a '{}' already; choose another name", part.name));
  }
  texts_.insert(texts_.end(), texts.begin(), texts.end());
  parts_.push_back(std::move(part));
  return *this;
}

Checkpoint& Checkpoint::add(const std::string& name, Module& model) {
  return add_part({.name = name,
                   .save =
                       [&model, name](Safetensors& content) {
                         content.tensors.merge(renamed(model.state(), "", name + "."));
                         content.metadata.merge(model.settings_metadata(name));
                       },
                   .load =
                       [&model, name](const Safetensors& content) {
                         check_same_settings(model, content, name);
                         model.load_state(part_of(content, name));
                       },
                   .remember = [&model] { return copy_of(model.state()); }});
}

Checkpoint& Checkpoint::add_state(const std::string& name, const std::function<TensorMap()>& state,
                                  const std::function<void(const TensorMap& state)>& load,
                                  const std::function<bool(const std::string& key)>& needs) {
  return add_part(
      {.name = name,
       .save = [state, name](Safetensors& content) { content.tensors.merge(renamed(state(), "", name + ".")); },
       .load = [load, name](const Safetensors& content) { load(part_of(content, name)); },
       .remember =
           [state, load] {
             TensorMap before = state();
             for (auto& [unused, tensor] : before) tensor = tensor.clone();
             return Undo([load, before = std::move(before)] { load(before); });
           },
       .needs = needs});
}

Checkpoint& Checkpoint::add(const std::string& name, const Tensor& tensor) {
  return add_part({.name = name,
                   .save = [tensor, name](Safetensors& content) { content.tensors[name] = tensor.detach(); },
                   .load =
                       [to = tensor.detach(), name](const Safetensors& content) mutable {
                         const auto found = content.tensors.find(name);
                         if (found == content.tensors.end() || found->second.shape() != to.shape() ||
                             found->second.dtype() != to.dtype()) {
                           throw ValueError(
                               fmt::format("it should be {} {}", to_string(to.shape()), name_of(to.dtype())));
                         }
                         to.copy_(found->second);
                       },
                   .remember = [tensor, name] { return copy_of({{name, tensor.detach()}}); }});
}

void Checkpoint::throw_lacking(const char* what, const std::string& name) const {
  throw IoError(
      fmt::format("{} is no checkpoint of a training run: it has no {} \"{}\"", path_.string(), what, name));
}

const std::string& Checkpoint::text_in(const Safetensors& content, const std::string& name) const {
  const auto found = content.metadata.find(name);
  if (found == content.metadata.end()) throw_lacking("text", name);
  return found->second;
}

template <class Number>
Number Checkpoint::number_in(const Safetensors& content, const std::string& name) const {
  const auto entry = content.metadata.find(name);
  const std::string_view text = entry == content.metadata.end() ? "" : std::string_view(entry->second);
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw_lacking("number", name);
  }
  return number;
}

template <class Number>
Checkpoint& Checkpoint::add_number(const std::string& name, Number& number) {
  return add_part(
      {.name = name,
       .save =
           [&number, name](Safetensors& content) {
             content.metadata[name] = fmt::to_string(number);  // with enough digits to restore it bit for bit
           },
       .load = [this, &number, name](const Safetensors& content) { number = number_in<Number>(content, name); },
       .remember = [&number] { return Undo([&number, before = number] { number = before; }); }},
      {name});
}

Checkpoint& Checkpoint::add(const std::string& name, int64_t& number) { return add_number(name, number); }
Checkpoint& Checkpoint::add(const std::string& name, double& number) { return add_number(name, number); }

Checkpoint& Checkpoint::add(const std::string& name, std::string& text) {
  return add_part({.name = name,
                   .save = [&text, name](Safetensors& content) { content.metadata[name] = text; },
                   .load = [this, &text, name](const Safetensors& content) { text = text_in(content, name); },
                   .remember = [&text] { return Undo([&text, before = text]() mutable { text.swap(before); }); }},
                  {name});
}

Checkpoint& Checkpoint::add(const std::string& name, Generator& generator) {
  const std::string seed = name + "_seed", draws = name + "_draws";
  return add_part(
      {.name = name,
       .save =
           [&generator, seed, draws](Safetensors& content) {
             content.metadata[seed] = fmt::to_string(generator.state().seed);
             content.metadata[draws] = fmt::to_string(generator.state().draws);
           },
       .load =
           [this, &generator, seed, draws](const Safetensors& content) {
             generator.set_state({number_in<uint64_t>(content, seed), number_in<uint64_t>(content, draws)});
           },
       .remember =
           [&generator] { return Undo([&generator, before = generator.state()] { generator.set_state(before); }); }},
      {seed, draws});
}

Checkpoint& Checkpoint::add(const std::string& name, Loader& loader) {
  const std::string epoch = name + "_epoch", batch = name + "_batch", order = name + "_order";
  const std::string examples = name + "_examples";
  return add_part({.name = name,
                   .save =
                       [&loader, epoch, batch, order, examples](Safetensors& content) {
                         const Loader::Position position = loader.position();
                         content.metadata[epoch] = fmt::to_string(position.epoch);
                         content.metadata[batch] = fmt::to_string(position.batch);
                         content.metadata[examples] = fmt::to_string(position.examples);
                         content.metadata[order] = order_of(loader);
                       },
                   .load =
                       [this, &loader, epoch, batch, order, examples](const Safetensors& content) {
                         check_same_order(loader, text_in(content, order));
                         const bool is_old = !content.metadata.contains(examples);  // the file of an older version
                         loader.seek({number_in<int64_t>(content, epoch), number_in<int64_t>(content, batch),
                                      is_old ? 0 : number_in<int64_t>(content, examples)});
                       },
                   .remember =
                       [&loader] {
                         // With the order of the epoch, because the data set may have grown since it began.
                         return Undo([&loader, before = loader.position_, order = loader.order_]() mutable {
                           loader.stop_workers();
                           loader.position_ = before;
                           loader.order_.swap(order);
                         });
                       }},
                  {epoch, batch, order, examples});
}

Safetensors Checkpoint::content() const {
  Safetensors content;
  for (const Part& part : parts_) {
    part.save(content);
    std::string& names = content.metadata[kParts];
    names += names.empty() ? part.name : "." + part.name;
  }
  // `metadata_` may come from another file and have names that are taken; `insert` then keeps the values above.
  content.metadata.insert(metadata_.begin(), metadata_.end());
  return content;
}

void Checkpoint::save(Where where) const {
  const Call call("save", where);
  write_safetensors(path_, content());
}

void Checkpoint::save(ProcessGroup& group, Where where) const {
  const Call call("save", where);
  write_of_ranks(group, path_, content());
}

void Checkpoint::load(const LoadOptions& options, Where where) {
  const Call call("load", where);
  const auto find = [&](const std::string& name) { return std::ranges::find(parts_, name, &Part::name); };
  std::set<std::string> there;  // the file's parts
  const Safetensors content = read_safetensors(path_, [&](const std::string& name) {
    const auto [part, key] = part_and_key(name);
    there.insert(part);
    const auto added = find(part);
    return added != parts_.end() && (!added->needs || added->needs(key));
  });
  there.merge(listed_parts(content));
  for (const std::string& part : there) {
    if (!options.strict || find(part) != parts_.end()) continue;
    throw ValueError(
        fmt::format("{} is of another run: it has a '{}', which was not added; add it, or pass {{.strict = false}}",
                    path_.string(), part));
  }
  std::vector<Undo> undo;
  undo.reserve(parts_.size());
  const Part* part = nullptr;
  try {
    for (size_t i = 0; i < parts_.size(); ++i) {
      part = &parts_[i];
      const bool is_last = i + 1 == parts_.size();  // no later part can fail, so it need not be undone
      Undo undo_this = is_last ? Undo() : part->remember();
      part->load(content);
      undo.push_back(std::move(undo_this));
    }
  } catch (const ValueError& error) {
    undo_all(undo);
    throw ValueError(fmt::format("{} is of another run: {}: {}", path_.string(), part->name, error.message()));
  } catch (...) {
    undo_all(undo);
    throw;
  }
}

}  // namespace linnet::nn
