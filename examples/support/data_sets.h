#pragma once

#include <string>

#include <linnet/linnet.h>

#include "support/settings.h"

/// What the programs learn from: in --data, then $LINNET_DATA, then data/ beside the project or here; and where it is
/// in none of them a stand-in, which a line on stderr says. A --data that lacks the set is an IoError. Other data
/// than the published in their place are named by that, their size and their CRC-32, and so told apart by --resume
/// too.

namespace linnet::examples {

struct NamedText {
  std::string name;
  nn::CharText text;
};

struct NamedDigits {
  std::string name;
  nn::Digits train;
  nn::Digits test;
};

/// Tiny Shakespeare, or the sources of this project.
NamedText load_text(const Settings& settings);

/// MNIST, or drawn digits.
NamedDigits load_digits(const Settings& settings);

}  // namespace linnet::examples
