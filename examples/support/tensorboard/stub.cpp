#include "support/settings/program.h"
#include "support/tensorboard/event_file.h"

/// Stands in for event_file.cpp in builds without protobuf.

namespace linnet::examples {

void require_event_files() {
  throw UsageError(
      "--tensorboard: linnet was built without protobuf; install libprotobuf-dev and protobuf-compiler, then "
      "configure and build again");
}

EventFile::EventFile(const std::filesystem::path&) { require_event_files(); }

void EventFile::add(int64_t, const std::vector<std::pair<std::string, double>>&, double) const {
  require_event_files();
}

}  // namespace linnet::examples
