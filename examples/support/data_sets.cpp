#include "support/data_sets.h"

#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <zlib.h>

namespace linnet::examples {
namespace {

const std::string kText = "tinyshakespeare/input.txt", kDigits = "mnist";

/// `published` for the bytes with the sum of what fetch_data.sh gets, and for no others.
std::string name_of(std::initializer_list<std::span<const std::byte>> parts, const std::string& path,
                    const std::string& published, const std::string& published_sum) {
  size_t size = 0;
  uLong crc = 0;
  for (const auto& part : parts) {
    size += part.size();
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(part.data()), part.size());
  }
  const std::string sum = fmt::format("{} bytes, crc32 {:08x}", size, crc);
  return sum == published_sum ? published : fmt::format("{} ({})", path, sum);
}

std::string name_of(const nn::CharText& text) {
  const nn::Vocabulary& vocabulary = text.vocabulary();
  const std::string train = vocabulary.decode(text.train()), validation = vocabulary.decode(text.validation());
  return name_of({std::as_bytes(std::span(train)), std::as_bytes(std::span(validation))}, kText, "Tiny Shakespeare",
                 "1115394 bytes, crc32 df613551");
}

std::string name_of(const nn::Mnist& mnist) {
  return name_of({std::as_bytes(mnist.train.pixels()), std::as_bytes(mnist.train.labels()),
                  std::as_bytes(mnist.test.pixels()), std::as_bytes(mnist.test.labels())},
                 kDigits, "MNIST", "54950000 bytes, crc32 1939f699");
}

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
  if (const auto path = find_data(settings, kText)) {
    nn::CharText text = nn::CharText::read(*path);
    return {name_of(text), std::move(text)};
  }
  fmt::print(
      stderr,
      "no Tiny Shakespeare in --data, $LINNET_DATA or data/ (examples/fetch_data.sh gets it): taking the sources of "
      "linnet instead\n");
  return {"linnet's own sources (stand-in)", nn::CharText::of_this_project()};
}

NamedDigits load_digits(const Settings& settings) {
  if (const auto folder = find_data(settings, kDigits)) {
    nn::Mnist mnist(*folder);
    return {name_of(mnist), std::move(mnist.train), std::move(mnist.test)};
  }
  fmt::print(
      stderr,
      "no MNIST in --data, $LINNET_DATA or data/ (examples/fetch_data.sh gets it): taking drawn digits instead\n");
  return {"drawn digits (stand-in)", nn::drawn_digits(10000, 1), nn::drawn_digits(2000, 2)};
}

}  // namespace linnet::examples
