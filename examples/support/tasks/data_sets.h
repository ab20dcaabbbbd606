#pragma once

#include <string>

#include <linnet/linnet.h>

#include "support/settings/settings.h"

/// What the programs learn from: --data, or else what $LINNET_DATA has, then data/ beside the project's sources or
/// here; and where it is in none of them a stand-in, which a line on stderr says. A --data that lacks the set is an
/// IoError.
/// Data that are not the published are named by their file or folder, their size and their CRC-32, and so told apart
/// by --resume too.

namespace linnet::examples {

struct NamedText {
  std::string name;
  std::filesystem::path path;  ///< of the file or folder that was read; empty for the stand-in
  nn::CharText text;
};

struct NamedImages {
  std::string name;
  nn::LabelledImages train;
  nn::LabelledImages test;
};

/// Whether these names, of data that a program found, are names of the same bytes, whatever their file is called.
bool same_data(const std::string& a, const std::string& b);

/// Where a data set is looked for without --data, for people.
std::string data_places();

/// The text of --data: a file, or a folder of *.txt files; or Tiny Shakespeare, or the sources of this project. A
/// line on stderr says when a byte order mark was dropped.
NamedText load_text(const Settings& settings);

/// The images in the folder --data, in files of MNIST's kind; or MNIST, or drawn digits.
NamedImages load_images(const Settings& settings);

}  // namespace linnet::examples
