#pragma once

#include <string>

#include <linnet/linnet.h>

#include "support/settings.h"

/// What the programs learn from: --data, or else what $LINNET_DATA has, then data/ beside the project or here; and
/// where it is in none of them a stand-in, which a line on stderr says. A --data that lacks the set is an IoError.
/// Data that are not the published are named by their file or folder, their size and their CRC-32, and so told apart
/// by --resume too.

namespace linnet::examples {

struct NamedText {
  std::string name;
  nn::CharText text;
};

struct NamedImages {
  std::string name;
  nn::LabelledImages train;
  nn::LabelledImages test;
};

/// The text of --data: a file, or a folder of *.txt files; or Tiny Shakespeare, or the sources of this project. A
/// line on stderr says when a byte order mark was dropped.
NamedText load_text(const Settings& settings);

/// The images in the folder --data, in files of MNIST's kind; or MNIST, or drawn digits.
NamedImages load_images(const Settings& settings);

}  // namespace linnet::examples
