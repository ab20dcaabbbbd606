#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "support/lra/sequences.h"
#include "support/settings/settings.h"
#include "support/tasks/data_sets.h"

namespace linnet::examples {

/// A public data set that a user has or fetches.
struct PublicSet {
  std::string name;      ///< "CIFAR-10"
  std::string folder;    ///< the folder of its files, in a data folder
  std::string file;      ///< a file in it, by which it is found; empty: the folder alone
  std::string files;     ///< its files, for messages
  std::string source;    ///< who has it: "published at https://…"
  std::string stand_in;  ///< what --stand-in takes in its place
  /// Whether a place holds the set, where its files have no fixed names; null where `file` says it.
  bool (*is_in)(const std::filesystem::path& place) = nullptr;
};

/// The place of the set. Where it is absent and settings.lra.stand_in is set, a line on stderr says so, and there is
/// none.
///
/// Throws: IoError where it is absent without --stand-in, with its files, folder and source.
std::optional<FoundData> find_public(const Settings& settings, const PublicSet& set);

/// Throws UsageError where settings have a --data-seed for these data, which nothing generates.
void refuse_data_seed(const Settings& settings, const FoundData& data);

/// The data with a name that holds the size and CRC-32 of their bytes and labels.
SequenceData named_by_content(const std::string& name, SequenceData data);

}  // namespace linnet::examples
