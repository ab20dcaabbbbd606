#include "support/tensorboard/event_file.h"

#include <chrono>
#include <cmath>

#include <event.pb.h>
#include <fmt/format.h>

#include "support/files.h"
#include "support/tensorboard/tfrecord.h"

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "events.out.tfevents.";  // the prefix by which TensorBoard finds the file
constexpr const char* kOurs = ".linnet";               // other programs have the host's name here

proto::Event event_now() {
  proto::Event event;
  event.set_wall_time(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  return event;
}

}  // namespace

void require_event_files() {}

EventFile::EventFile(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kName) && name.ends_with(kOurs)) fs::remove(entry.path());
  }
  proto::Event event = event_now();
  event.set_file_version("brain.Event:2");
  path_ = folder / fmt::format("{}{:010.0f}{}", kName, std::floor(event.wall_time()), kOurs);
  append(event.SerializeAsString());
}

void EventFile::add(int64_t step, const std::vector<std::pair<std::string, double>>& scalars,
                    double seconds_ago) const {
  proto::Event event = event_now();
  event.set_wall_time(event.wall_time() - seconds_ago);
  event.set_step(step);
  for (const auto& [tag, value] : scalars) {
    proto::Summary::Value* entry = event.mutable_summary()->add_value();
    entry->set_tag(tag);
    entry->set_simple_value(static_cast<float>(value));
  }
  append(event.SerializeAsString());
}

void EventFile::append(const std::string& event) const { examples::append(path_, tfrecord(event)); }

}  // namespace linnet::examples
