/// Trains a classifier of long sequences on a task of the Long Range Arena (Tay et al. 2021), and prints and draws
/// the results of several runs: tables 1 and 2 and figures 5 and 6 of Gerami et al. 2024.

#include <CLI/CLI.hpp>

#include "support/report/lra_report.h"
#include "support/run/train_program.h"
#include "support/settings/program.h"

using linnet::examples::Settings;
using linnet::examples::TaskKind;

namespace {

/// Throws UsageError for flags of training beside --table or --figures.
void check_only_out(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = "--" + option->get_single_name();
    if (option->count() == 0 || name == "--table" || name == "--figures" || name == "--out") continue;
    throw linnet::examples::UsageError(name +
                                       " does not apply to --table and --figures, which train nothing; leave it out");
  }
}

}  // namespace

int main(int argc, char** argv) {
  bool table = false, figures = false;
  const CLI::App* flags = nullptr;
  return linnet::examples::train_program(
      argc, argv,
      {.name = "lra",
       .tasks = linnet::examples::task_names(TaskKind::sequences),
       .description = "Trains a classifier of long sequences on a task of the Long Range Arena.",
       .add_flags =
           [&](CLI::App& app) {
             flags = &app;
             app.add_flag("--table", table,
                          "train nothing: print the finished runs in --out beside published results");
             app.add_flag("--figures", figures,
                          "train nothing: draw accuracy, speed and losses of the runs in --out");
           },
       .instead_of_training =
           [&](const Settings& settings) {
             if (table || figures) check_only_out(*flags);
             const std::filesystem::path folder = settings.out.empty() ? "out" : settings.out;
             if (table) linnet::examples::print_table(folder);
             if (figures) linnet::examples::draw_figures(folder);
             return table || figures;
           }});
}
