/// Trains a classifier of long sequences on a task of the Long Range Arena (Tay et al. 2021), and prints and draws
/// the results of several runs: tables 1 and 2 and figures 5 and 6 of Gerami et al. 2024.

#include <CLI/CLI.hpp>

#include "support/report/lra_report.h"
#include "support/run/train_program.h"

using linnet::examples::Settings;
using linnet::examples::TaskKind;

int main(int argc, char** argv) {
  bool table = false, figures = false;
  return linnet::examples::train_program(
      argc, argv,
      {.name = "lra",
       .tasks = linnet::examples::task_names(TaskKind::sequences),
       .description = "Trains a classifier of long sequences on a task of the Long Range Arena.",
       .add_flags =
           [&](CLI::App& app) {
             app.add_flag("--table", table,
                          "train nothing: print the finished runs in --out beside published results");
             app.add_flag("--figures", figures,
                          "train nothing: draw accuracy, speed and losses of the runs in --out");
           },
       .instead_of_training =
           [&](const Settings& settings) {
             const std::filesystem::path folder = settings.out.empty() ? "out" : settings.out;
             if (table) linnet::examples::print_table(folder);
             if (figures) linnet::examples::draw_figures(folder);
             return table || figures;
           }});
}
