#include "support/bench/bench_options.h"

#include <fmt/format.h>
#include <linnet/linnet.h>
#include <nlohmann/json.hpp>

#include "support/files.h"

namespace linnet::examples {

void print_json(const BenchOptions& options, nlohmann::json figures) {
  figures.update(
      {{"device", options.settings.device}, {"precision", options.settings.precision}, {"threads", num_threads()}});
  fmt::print("{}\n", figures.dump());
  flush_output();  // measuring the next line may take minutes
}

nlohmann::json case_json(const AttentionCase& c, const Measured& measured) {
  nlohmann::json json = to_json(measured);
  json.update({{"mechanism", c.mechanism},
               {"causal", c.causal},
               {"batch", c.batch},
               {"heads", c.heads},
               {"tokens", c.tokens},
               {"head_dim", c.head_dim},
               {"dtype", name_of(c.dtype)}});
  for (const nn::AttentionOption& option : nn::find_mechanism(c.mechanism).option_list) {
    json[option.name] = option.get(options_of(c));
  }
  return json;
}

}  // namespace linnet::examples
