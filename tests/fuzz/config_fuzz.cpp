#include <cstdlib>

#include <nlohmann/json.hpp>

#include "support/run/run_folder.h"
#include "support/settings/settings.h"
#include "tests/fuzz/fuzz_target.h"

/// Settings read from a config.json stay the same when they are written and read again.

namespace linnet::fuzz {

const int64_t memory_allowance = int64_t{6} << 20;  // nlohmann's trees of the longest text that is parsed

void run(Bytes input) {
  const Folder folder;
  folder.write("config.json", input);
  std::string data_name;
  const examples::Settings settings =
      checked(input, [&] { return examples::read_config(folder.path(), &data_name); });
  const nlohmann::json json = examples::to_json(settings);
  if (must([&] { return examples::to_json(examples::settings_from_json(json)); }) != json) std::abort();
}

}  // namespace linnet::fuzz
