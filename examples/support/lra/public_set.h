#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "support/lra/sequences.h"
#include "support/settings/settings.h"
#include "support/tasks/data_sets.h"

namespace linnet::examples {

/// A public data set, which a user has or downloads.
struct PublicSet {
  std::string name;      ///< "CIFAR-10"
  std::string folder;    ///< the folder of its files, in a data folder
  std::string file;      ///< a file that identifies it; empty: the folder does
  std::string files;     ///< its files, for messages
  std::string source;    ///< where to get it: "published at https://…"
  std::string stand_in;  ///< what --stand-in uses instead
  /// Whether a place holds the set, if its files have no fixed names; null if `file` decides it.
  bool (*is_in)(const std::filesystem::path& place) = nullptr;
  /// Throws UsageError for flags that do not apply to what --stand-in uses; null if there are none.
  void (*check_stand_in)(const Settings& settings) = nullptr;
};

/// The place of the set. If it is absent and settings.lra.stand_in is set, or the run began with the stand-in, there
/// is none, and a line on stderr says so.
///
/// Throws: IoError if it is absent without --stand-in; the message names its files, folder and source. UsageError for
/// a flag that does not apply to the stand-in.
std::optional<FoundData> find_public(const Settings& settings, const PublicSet& set);

/// Throws UsageError if the flag is given, since the data that stand in are generated.
void refuse_for_generated(const char* flag, bool is_given);

/// Throws UsageError if the settings have a --data-seed, which does not apply to `data`: "aclImdb, which …".
void refuse_data_seed(const Settings& settings, const std::string& data);
/// The same for a public set, which is not generated.
void refuse_data_seed(const Settings& settings, const FoundData& data);

/// The data with a name that holds the size and CRC-32 of their bytes and labels.
SequenceData named_by_content(const std::string& name, SequenceData data);

}  // namespace linnet::examples
