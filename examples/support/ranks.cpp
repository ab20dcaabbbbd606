#include "support/ranks.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sched.h>
#include <unistd.h>

#include <fmt/format.h>
#include <linnet/core/distributed/transport.h>
#include <linnet/core/files/read_file.h>
#include <linnet/linnet.h>
#include <zlib.h>
#include <nlohmann/json.hpp>

#include "support/settings/program.h"

namespace linnet::examples {
namespace {

ProcessGroup* joined = nullptr;  // never destroyed, since it reports errors to other ranks until the end
int first_stderr = -1;           // the original stderr of a rank that is silent

std::string own_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  return {reinterpret_cast<const char*>(&cores), sizeof cores};
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// Checksum of this program's file; empty if the system does not provide the file.
std::string program_checksum() {
  try {
    const std::string bytes = linnet::detail::read_file("/proc/self/exe");
    const auto* const data = reinterpret_cast<const Bytef*>(bytes.data());
    return fmt::format("{:08x}", crc32_z(0, data, bytes.size()));
  } catch (const Error&) {
    return "";
  }
}

/// The text without a part of it.
std::string without(std::string text, const std::string& part) {
  if (const size_t at = text.find(part); at != std::string::npos) text.erase(at, part.size());
  return text;
}

std::string bytes_of(const std::vector<double>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)};
}

std::vector<double> doubles_in(std::string_view bytes) {
  std::vector<double> values(bytes.size() / sizeof(double));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// A number or a word as a user wrote it.
std::string text_of(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

ProcessGroup& one_rank() {
  static ProcessGroup* const alone = new ProcessGroup(std::unique_ptr<linnet::detail::Transport>());
  return *alone;
}

ProcessGroup& ranks() { return joined != nullptr ? *joined : one_rank(); }

void join_ranks() {
  if (joined != nullptr) return;
  joined = new ProcessGroup();
  if (is_first_rank()) return;
  first_stderr = ::dup(STDERR_FILENO);
  for (std::FILE* const out : {stdout, stderr}) {
    if (std::freopen("/dev/null", "w", out) == nullptr) throw IoError("/dev/null cannot be written");
  }
}

void restore_stderr() {
  if (first_stderr >= 0) ::dup2(first_stderr, STDERR_FILENO);
}

int threads_of_rank() {
  // A rank that is bound to processors of its own has only these. Any other rank has all processors of the host.
  const std::string host = host_name() + '\n';
  int local = 0;
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const std::string& text : ranks().all_gather(host + own_cores())) {
    if (!text.starts_with(host)) continue;
    ++local;
    cpu_set_t cores;
    std::memcpy(&cores, text.data() + host.size(), sizeof cores);
    CPU_OR(&all, &all, &cores);
  }
  return std::clamp(CPU_COUNT(&all) / local, 1, num_threads());
}

void on_first_rank(const std::function<void()>& body) {
  if (ranks().world_size() == 1) return body();
  ranks().barrier();
  std::exception_ptr error;
  std::string message;
  if (is_first_rank()) {
    try {
      body();
    } catch (const std::exception& thrown) {
      error = std::current_exception();
      message = fmt::format("rank 0: {}", thrown.what());
    }
  }
  message = ranks().all_gather(message).front();
  if (error) std::rethrow_exception(error);
  if (!message.empty()) throw IoError(message);
}

bool on_any_rank(bool flag, ProcessGroup& group) {
  if (group.world_size() == 1) return flag;  // fast, since each step calls this
  Tensor count = full({1}, flag ? 1 : 0, DType::float64);
  group.all_reduce(count, {.any_order = true});
  return count.item<double>() > 0;
}

void stop_if_interrupted(ProcessGroup& group) {
  if (!on_any_rank(interrupted(), group)) return;
  throw Interrupted("stopped during an evaluation; with --resume the same command goes on");
}

int64_t largest_of_ranks(int64_t number) {
  int64_t largest = number;
  for (const std::string& text : ranks().all_gather(fmt::to_string(number))) {
    largest = std::max<int64_t>(largest, std::stoll(text));
  }
  return largest;
}

bool of_first_rank(bool flag) {
  const Tensor value = full({1}, flag ? 1 : 0, DType::int64);
  ranks().broadcast({value});
  return value.item<int64_t>() != 0;
}

std::vector<Figures> figures_of_batches(int64_t count, const std::function<Figures(int64_t batch)>& of_batch,
                                        ProcessGroup& group) {
  const auto first_of = [&](int64_t rank) { return count * rank / group.world_size(); };
  const int64_t first = first_of(group.rank()), own = first_of(group.rank() + 1) - first;
  const int64_t most = (count + group.world_size() - 1) / group.world_size();  // batches of a rank
  std::vector<Figures> all;
  for (int64_t i = 0; i < most; ++i) {
    stop_if_interrupted(group);
    if (i < own) all.push_back(of_batch(first + i));
  }
  if (group.world_size() == 1) return all;
  Figures flat;  // all figures, those of each batch after their number
  for (const Figures& figures : all) {
    flat.push_back(static_cast<double>(figures.size()));
    flat.insert(flat.end(), figures.begin(), figures.end());
  }
  all.clear();
  for (const std::string& text : group.all_gather(bytes_of(flat))) {
    const Figures of_rank = doubles_in(text);
    for (auto at = of_rank.begin(); at != of_rank.end();) {
      const auto begin = at + 1, end = begin + static_cast<ptrdiff_t>(*at);
      all.emplace_back(begin, end);
      at = end;
    }
  }
  return all;
}

Figures sums_of_batches(int64_t count, const std::function<Figures(int64_t batch)>& of_batch, ProcessGroup& group) {
  Figures sums;
  for (const Figures& figures : figures_of_batches(count, of_batch, group)) {
    sums.resize(figures.size());
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += figures[i];
  }
  return sums;
}

void check_same_start(const Settings& settings, const std::string& data_name) {
  if (ranks().world_size() == 1) return;
  nlohmann::json own = to_json(settings);
  own["shard_optimizer"] = settings.shard_optimizer;
  own["data"] = data_name;
  own["program"] = program_checksum();
  own["build"] = without(build_info(device_of(settings)), describe_threads());
  const std::vector<std::string> all = ranks().all_gather(own.dump());
  const auto first = nlohmann::json::parse(all.front());
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const auto other = nlohmann::json::parse(all[rank]);
    for (const auto& item : first.items()) {
      const nlohmann::json value = other.value(item.key(), nlohmann::json());
      if (value == item.value()) continue;
      throw ValueError(
          fmt::format("rank {} has {} {}, and rank 0 has {}; start all ranks with the same program, flags "
                      "and data",
                      rank, item.key(), text_of(value), text_of(item.value())));
    }
  }
}

}  // namespace linnet::examples
