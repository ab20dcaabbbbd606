#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <linnet/linnet.h>

#include "support/settings/settings.h"

/// The data that programs train on. They are read from --data; without --data from $LINNET_DATA, from data/ beside
/// the project's sources, or from data/ in the current folder. If the set is in none of these, a stand-in is used,
/// and a line on stderr says so. A --data without the set is an IoError. A run that began with the stand-in goes on
/// with it, even if the set is there by then.
///
/// The name of data other than the published sets contains their file or folder, size and CRC-32. --resume compares
/// these names.

namespace linnet::examples {

/// The path of a data set, and its name: `name`, or the last part of --data.
struct FoundData {
  std::filesystem::path path;
  std::string name;
};

/// The data set `name` inside --data, or --data itself; without --data, the first of data_folders() that has `name`.
/// If `file` is given, a place counts only if it holds this file. Throws IoError for a --data that does not exist.
std::optional<FoundData> find_data(const Settings& settings, const std::string& name, const std::string& file = "");
/// The same, but a place counts only if `is_in(place)`.
std::optional<FoundData> find_data(const Settings& settings, const std::string& name,
                                   const std::function<bool(const std::filesystem::path& place)>& is_in);

/// What the validation part of a folder may be called. The first that is there counts.
inline constexpr std::array kValidationNames{"dev", "val", "valid", "validation"};

/// The last part of a path, as UTF-8: "my.txt" for data/my.txt, "texts" for ./texts/.
std::string last_name(const std::filesystem::path& path);

/// The name of a published data set with this content; for other data, `name` with size and CRC-32.
std::string name_by_content(const std::vector<std::span<const std::byte>>& parts, const std::string& name);
/// The same for MNIST's pixels and labels, or for other data in its format.
std::string name_of(const nn::Mnist& mnist, const std::string& name);

struct NamedText {
  std::string name;
  std::filesystem::path path;  ///< the file or folder that was read; empty for the stand-in
  nn::CharText text;
};

struct NamedImages {
  std::string name;
  nn::LabelledImages train;
  nn::LabelledImages test;
};

/// Whether data with this name were made, or chosen, because a set was absent.
bool is_stand_in(const std::string& name);
/// Says on stderr that a run which goes on began without the set, and takes the stand-in.
void report_stand_in_again(const std::string& set, const std::string& stand_in);

/// Whether two names of data mean the same bytes, even if their files have different names.
bool same_data(const std::string& a, const std::string& b);

/// The text of --data, a file or a folder of *.txt files; without --data Tiny Shakespeare, or the stand-in, the
/// sources of this project. A line on stderr says if a byte order mark was dropped.
NamedText load_text(const Settings& settings);

/// The images in the folder --data, in MNIST's file format; without --data MNIST, or the stand-in, drawn digits.
NamedImages load_images(const Settings& settings);

}  // namespace linnet::examples
