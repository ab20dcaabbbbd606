#include "support/bench/kernel_table.h"

#include <algorithm>

#include <fmt/format.h>
#include <linnet/linnet.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "support/bench/kernel_cases.h"
#include "support/format.h"
#include "support/settings/program.h"
#include "support/table.h"

namespace linnet::examples {
namespace {

struct Row {
  std::string kernel;
  double ms, bytes, flops;
};

/// Measured rates of a device per second.
struct Rates {
  double bytes, flops;
};

/// Milliseconds of one call. It times several calls together, for some milliseconds, so that the wait for a GPU at
/// the end hardly counts.
double time_of(const KernelCase& c, Device device, double seconds) {
  const Tensor probe = zeros({1}).to(device);
  const auto time = [&](int64_t calls) {
    return [&, calls] {
      for (int64_t i = 0; i < calls; ++i) c.run();
      wait_for(probe);
    };
  };
  constexpr double kRoundMs = 5;
  constexpr double kMostCalls = 1000;
  const double once = measure(time(1), 0).least_ms;
  const auto calls = static_cast<int64_t>(std::clamp(kRoundMs / once, 1.0, kMostCalls));
  return measure(time(calls), seconds).median_ms / static_cast<double>(calls);
}

Row measure_kernel(const KernelCase& c, Device device, double seconds) {
  std::vector<KernelCall> calls;
  {
    const Profile profile;
    c.run();
    calls = profile.calls();
  }
  const KernelCall& call = calls.back();  // a first run may allocate and fill tensors before it
  const std::string name = call.kernel + (c.note.empty() ? "" : ", " + c.note);
  return {name, time_of(c, device, seconds), c.passes * static_cast<double>(call.bytes), c.flops};
}

/// The bound in milliseconds: the time at the rates of copies and products, whichever is longer.
double bound_ms(const Row& row, const Rates& rates) {
  return 1e3 * std::max(row.bytes / rates.bytes, row.flops / rates.flops);
}

bool is_bound_by_memory(const Row& row, const Rates& rates) {
  return row.bytes / rates.bytes >= row.flops / rates.flops;
}

}  // namespace

void add_kernel_flags(CLI::App& app, KernelOptions& options) {
  app.add_option("--head-dim", options.at.head_dim, "numbers per head")->check(whole_number(1));
  app.add_option("--side", options.side, "side of the square matrices whose copy and product give the bounds")
      ->check(whole_number(1));
}

void run_kernel_table(KernelOptions options, const BenchOptions& bench) {
  const Device device = options.at.device = device_of(bench.settings);
  options.at.seed = bench.settings.seed;
  options.at.dtype = model_dtype(bench.settings);
  const Row copy = measure_kernel(copy_case(options.side, device), device, bench.seconds);
  const Row product = measure_kernel(product_case(options.side, options.at.dtype, device), device, bench.seconds);
  release_cached_memory(device);
  const Rates rates{1e3 * copy.bytes / copy.ms, 1e3 * product.flops / product.ms};

  Table table({"kernel", "ms", "bytes", "GFLOP", "GB/s", "GFLOP/s", "bound", "of bound"});
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& make : kernel_cases(options.at)) {
    const Row row = measure_kernel(make(), device, bench.seconds);
    const char* bound = is_bound_by_memory(row, rates) ? "memory" : "products";
    const double share = bound_ms(row, rates) / row.ms;
    rows.push_back({{"kernel", row.kernel},
                    {"ms", row.ms},
                    {"bytes", row.bytes},
                    {"flops", row.flops},
                    {"bound", bound},
                    {"share", share}});
    table.add_row({row.kernel, fmt::format("{:.4f}", row.ms), format_bytes(static_cast<int64_t>(row.bytes)),
                   fmt::format("{:.3f}", row.flops / 1e9), fmt::format("{:.1f}", row.bytes / row.ms / 1e6),
                   fmt::format("{:.1f}", row.flops / row.ms / 1e6), bound, fmt::format("{:.0f} %", 100 * share)});
  }
  if (bench.json) {
    return print_json(bench,
                      {{"bytes_per_second", rates.bytes}, {"flops_per_second", rates.flops}, {"kernels", rows}});
  }
  fmt::print(
      "Bounds measured in this run: copies read and write {:.1f} GB/s, {} products make {:.1f} GFLOP/s.\n"
      "A kernel above its bound worked from a cache.\n{}",
      rates.bytes / 1e9, bench.settings.precision, rates.flops / 1e9, table.str());
}

}  // namespace linnet::examples
