#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <linnet/core/files/safetensors.h>
#include <linnet/core/files/utf8.h>

/// Reading the header of a safetensors file. This header is not installed, because it includes nlohmann's header.

namespace linnet::detail {

/// The only key of the header that is not a tensor's name. Its value is the file's metadata.
constexpr const char* kSafetensorsMetadata = "__metadata__";

/// Reads a header while it is parsed, without building a JSON tree, because a header may list a million tensors.
/// Ignores fields that the format does not have.
class [[gnu::visibility("hidden")]] SafetensorsHeader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  /// It calls `add` for each tensor, with its fields, and `fail` for an error; `fail` throws.
  using Add = std::function<void(TensorMap::iterator place, const std::string& dtype,
                                 const std::vector<int64_t>& sizes, const std::vector<int64_t>& offsets)>;
  using Fail = std::function<void(const std::string& what)>;
  /// Fills in the metadata of `content`, and the names of its tensors.
  SafetensorsHeader(Safetensors& content, Add add, Fail fail)
      : content_(content), add_(std::move(add)), fail_(std::move(fail)) {}

  bool key(std::string& name) override {
    if (depth_ == kNames) {
      name_ = name;
      in_metadata_ = name == kSafetensorsMetadata;
      if (in_metadata_ && std::exchange(has_metadata_, true)) fail_twice(name);
    } else if (depth_ == kFields && in_metadata_) {
      const auto [entry, is_new] = content_.metadata.try_emplace(name);
      if (!is_new) fail_twice(name);
      metadata_ = entry;
    } else if (depth_ == kFields) {
      field_ = name == "dtype"          ? Field::dtype
               : name == "shape"        ? Field::sizes
               : name == "data_offsets" ? Field::offsets
                                        : Field::unknown;
      const bool is_again = (field_ == Field::dtype && dtype_) || (field_ == Field::sizes && sizes_) ||
                            (field_ == Field::offsets && offsets_);
      if (is_again) fail_twice(name);
    }
    return true;
  }
  bool start_object(size_t /*size*/) override {
    if (depth_ != kOutside && depth_ != kNames) other("an object");
    if (depth_ == kNames) {
      dtype_.reset();
      sizes_.reset();
      offsets_.reset();
    }
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    if (depth_ != kNames || in_metadata_) return true;
    if (!dtype_ || !sizes_ || !offsets_) fail_lacking();
    const auto [place, is_new] = content_.tensors.try_emplace(name_);
    if (!is_new) fail_twice(name_);
    add_(place, *dtype_, *sizes_, *offsets_);
    return true;
  }
  bool start_array(size_t /*size*/) override {
    if (depth_ == kOutside) return false;
    const bool is_field = depth_ == kFields && !in_metadata_;
    if (is_field && field_ == Field::sizes)
      list_ = &sizes_.emplace();
    else if (is_field && field_ == Field::offsets)
      list_ = &offsets_.emplace();
    else
      other("a list");
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    if (depth_ == kFields) list_ = nullptr;
    return true;
  }
  bool null() override { return depth_ == kNames && in_metadata_ ? true : other("null"); }
  bool boolean(bool value) override { return other(value ? "true" : "false"); }
  bool number_integer(int64_t value) override { return other(fmt::to_string(value)); }
  bool number_float(double /*value*/, const std::string& text) override { return other(text); }
  bool number_unsigned(uint64_t value) override {
    if (list_ == nullptr || depth_ != kLists || !std::in_range<int64_t>(value)) return other(fmt::to_string(value));
    if (std::ssize(*list_) <= kMaxRank) list_->push_back(static_cast<int64_t>(value));  // more is an error anyway
    return true;
  }
  bool string(std::string& text) override {
    if (depth_ == kFields && in_metadata_)
      metadata_->second = text;
    else if (depth_ == kFields && field_ == Field::dtype)
      dtype_ = text;
    else
      other(fmt::format("\"{}\"", shortened(text)));
    return true;
  }
  bool binary(nlohmann::json::binary_t& /*value*/) override { return false; }  // not JSON
  bool parse_error(size_t position, const std::string& /*last*/,
                   const nlohmann::json::exception& /*error*/) override {
    fail_(fmt::format("its header is not a JSON object: byte {}", position));
    return false;
  }

 private:
  // The number of objects and lists around a value: the header, a tensor's entry, a field of it, a size or offset.
  static constexpr int kOutside = 0, kNames = 1, kFields = 2, kLists = 3;
  enum class Field { dtype, sizes, offsets, unknown };

  void fail_twice(const std::string& key) { fail_(fmt::format("its header has the key '{}' twice", shortened(key))); }
  void fail_lacking() { fail_(fmt::format("tensor '{}' lacks dtype, shape or data_offsets", shortened(name_))); }

  /// Handles a value where the format has none. Fails, or ignores it if it is in a field that the format does not
  /// have.
  bool other(const std::string& value) {
    if (depth_ == kOutside) return false;
    if (in_metadata_ && depth_ == kNames) fail_("its metadata is not a JSON object");
    if (in_metadata_) {
      fail_(fmt::format("its metadata '{}' is not a string", shortened(metadata_->first)));
    }
    if (depth_ == kNames) fail_lacking();
    const std::string name = shortened(name_), text = shortened(value);
    if (list_ != nullptr) fail_(fmt::format("tensor '{}' has the size or offset {}", name, text));
    if (depth_ == kFields && (field_ == Field::sizes || field_ == Field::offsets)) {
      fail_(fmt::format("tensor '{}' has {} where a list belongs", name, text));
    }
    if (depth_ == kFields && field_ == Field::dtype) fail_lacking();
    return true;
  }

  Safetensors& content_;
  Add add_;
  Fail fail_;
  int depth_ = 0;
  bool in_metadata_ = false, has_metadata_ = false;
  std::string name_;  // of the tensor
  std::map<std::string, std::string>::iterator metadata_;
  Field field_ = Field::unknown;
  std::optional<std::string> dtype_;
  std::optional<std::vector<int64_t>> sizes_, offsets_;
  std::vector<int64_t>* list_ = nullptr;  // the list that is being read
};

}  // namespace linnet::detail
