#include "support/tensorboard/event_file.h"

#include <cstring>
#include <map>
#include <sstream>

#include <doctest/doctest.h>
#include <event.pb.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/tensorboard/tfrecord.h"
#include "tests/examples/run/tiny_run.h"

using namespace linnet::examples;
using namespace linnet::examples::test;
using linnet::test::read_bytes;
using linnet::test::run_program;
namespace fs = std::filesystem;

namespace {

/// The events of the only event file in the folder. Checks each record's framing and checksums.
std::vector<proto::Event> events_in(const fs::path& folder) {
  std::vector<std::string> files;
  for (const std::string& name : names_in(folder)) {
    if (name.starts_with("events.out.tfevents.")) files.push_back(name);
  }
  REQUIRE(files.size() == 1);
  std::vector<proto::Event> events;
  const std::string bytes = read_bytes(folder / files[0]);
  for (size_t position = 0; position < bytes.size();) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + position, sizeof length);
    REQUIRE(position + 8 + 4 + length + 4 <= bytes.size());
    const std::string data = bytes.substr(position + 12, length);
    CHECK(bytes.substr(position, length + 16) == tfrecord(data));
    REQUIRE(events.emplace_back().ParseFromString(data));
    position += length + 16;
  }
  return events;
}

}  // namespace

TEST_CASE("crc32c: the check value of the standard, and RFC 3720's examples") {
  CHECK(crc32c("123456789") == 0xe3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
}

TEST_CASE("tfrecord: what TensorBoard's own writer makes of no bytes and of three") {
  const auto hex = [](const std::string& bytes) {
    std::string text;
    for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
  };
  CHECK(hex(tfrecord("")) == "000000000000000029039807d8ea82a2");
  CHECK(hex(tfrecord("abc")) == "0300000000000000b099490e6162636e57f121");
}

TEST_CASE("--tensorboard writes what metrics.jsonl holds, and a resumed run writes it whole") {
  const Workshop shop;
  const auto check = [&](const Arguments& flags) {
    CHECK(run_program("train_shakespeare", flags).code == 0);
    const std::vector<proto::Event> events = events_in(shop / "run");
    REQUIRE(events.size() == 4);
    CHECK(events[0].file_version() == "brain.Event:2");
    CHECK(events[0].wall_time() > 1.7e9);
    std::istringstream lines(read_bytes(shop / "run/metrics.jsonl"));
    for (size_t i = 1; i < events.size(); ++i) {
      std::string line;
      std::getline(lines, line);
      const auto metrics = nlohmann::json::parse(line);
      CHECK(events[i].step() == metrics["step"]);
      std::map<std::string, float> values;
      for (const auto& value : events[i].summary().value()) values[value.tag()] = value.simple_value();
      CHECK(values.at("loss/validation") == metrics["val_loss"].get<float>());
      CHECK(values.at("lr") == metrics["lr"].get<float>());
      CHECK(values.at("speed/tokens_per_second") == metrics["tokens_per_second"].get<float>());
      CHECK(values.contains("loss/train") == (i > 1));
      CHECK_FALSE(values.contains("accuracy/validation"));
    }
  };
  check(shop.tiny("run") + Arguments{"--tensorboard"});
  for (const auto& entry : fs::directory_iterator(shop / "run")) {
    if (entry.path().filename().string().starts_with("events")) fs::resize_file(entry.path(), 100);
  }
  check({"--resume", "--out", shop / "run", "--data", shop / "data"});
}

TEST_CASE("an event file takes the place of linnet's own, and of no other program's") {
  const linnet::test::TemporaryFolder folder;
  const std::string foreign = "events.out.tfevents.1700000000.host.42.0";
  linnet::test::write_bytes(folder / foreign, "of another program");
  linnet::test::write_bytes(folder / "events.out.tfevents.1700000000.linnet", "of a run before");
  const EventFile events(folder.path());
  const std::vector<std::string> names = names_in(folder.path());
  REQUIRE(names.size() == 2);
  CHECK(names[0] == foreign);
  CHECK(read_bytes(folder / foreign) == "of another program");
  CHECK(names[1] > "events.out.tfevents.1700000000.linnet");
}

TEST_CASE("an event file has zeros, and values of earlier training at their time") {
  const linnet::test::TemporaryFolder folder;
  const EventFile file(folder.path());
  file.add(0, {{"accuracy", 0}}, 3600);
  file.add(1, {{"accuracy", 0.5}});
  const std::vector<proto::Event> events = events_in(folder.path());
  REQUIRE(events.size() == 3);
  CHECK(events[1].summary().value(0).value_case() == proto::Summary::Value::kSimpleValue);
  CHECK(events[1].summary().value(0).simple_value() == 0);
  CHECK(events[2].wall_time() - events[1].wall_time() == doctest::Approx(3600).epsilon(1e-3));
}
