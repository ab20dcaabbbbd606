/// Trains a classifier of long sequences on a task of the Long Range Arena (Tay et al. 2021), and prints and draws
/// the results of several runs: tables 1 and 2 and figures 5 and 6 of Gerami et al. 2024.

#include <fmt/format.h>

#include "support/lra/pathfinder_data.h"
#include "support/report/report_program.h"
#include "support/settings/program.h"

namespace {

void draw_sheet(const linnet::examples::Settings& settings, const std::filesystem::path& path) {
  if (settings.task != "pathfinder") {
    throw linnet::examples::UsageError(
        fmt::format("--sheet draws images of --task pathfinder, not of {}; name that task", settings.task));
  }
  linnet::examples::draw_pathfinder_sheet(settings.lra, path);
}

}  // namespace

int main(int argc, char** argv) {
  return linnet::examples::report_program(
      argc, argv,
      {.name = "lra",
       .kind = linnet::examples::TaskKind::sequences,
       .description = "Trains a classifier of long sequences on a task of the Long Range Arena.",
       .print_table = linnet::examples::print_lra_table,
       .draw_sheet = draw_sheet,
       .sheet_flags = {"--contour-length", "--distractors", "--data-seed"}});
}
