#include "support/data_sets.h"

#include <cstdlib>
#include <optional>

#include <fmt/format.h>

namespace linnet::examples {
namespace {

std::optional<std::filesystem::path> find_data(const Settings& settings, const std::string& name) {
  namespace fs = std::filesystem;
  if (!settings.data.empty()) {
    const fs::path path = settings.data / name;
    if (fs::exists(path)) return path;
    throw IoError(
        fmt::format("--data {}: it has no {}; examples/fetch_data.sh gets it", settings.data.string(), name));
  }
  std::vector<fs::path> folders;
  if (const char* variable = std::getenv("LINNET_DATA"); variable != nullptr && *variable != '\0') {
    folders.emplace_back(variable);
  }
  folders.emplace_back(fs::path(LINNET_SOURCE_DIR) / "data");
  folders.emplace_back("data");
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / name)) return folder / name;
  }
  return std::nullopt;
}

}  // namespace

NamedText load_text(const Settings& settings) {
  if (const auto path = find_data(settings, "tinyshakespeare/input.txt")) {
    return {"Tiny Shakespeare", nn::CharText::read(*path)};
  }
  fmt::print(
      stderr,
      "no Tiny Shakespeare in --data, $LINNET_DATA or data/ (examples/fetch_data.sh gets it): taking the sources of "
      "linnet instead\n");
  return {"linnet's own sources (stand-in)", nn::CharText::of_this_project()};
}

NamedDigits load_digits(const Settings& settings) {
  if (const auto folder = find_data(settings, "mnist")) {
    nn::Mnist mnist(*folder);
    return {"MNIST", std::move(mnist.train), std::move(mnist.test)};
  }
  fmt::print(
      stderr,
      "no MNIST in --data, $LINNET_DATA or data/ (examples/fetch_data.sh gets it): taking drawn digits instead\n");
  return {"drawn digits (stand-in)", nn::drawn_digits(10000, 1), nn::drawn_digits(2000, 2)};
}

}  // namespace linnet::examples
