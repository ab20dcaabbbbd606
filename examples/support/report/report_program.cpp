#include "support/report/report_program.h"

#include <CLI/CLI.hpp>

#include "support/report/figures.h"
#include "support/run/train_program.h"
#include "support/settings/program.h"

namespace linnet::examples {
namespace {

/// Throws UsageError for flags of training beside --table or --figures.
void check_only_out(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = "--" + option->get_single_name();
    if (option->count() == 0 || name == "--table" || name == "--figures" || name == "--out") continue;
    throw UsageError(name + " does not apply to --table and --figures, which train nothing; leave it out");
  }
}

}  // namespace

int report_program(int argc, char** argv, const ReportProgram& program) {
  bool table = false, figures = false;
  std::filesystem::path sheet;
  const CLI::App* flags = nullptr;
  return train_program(
      argc, argv,
      {.name = program.name,
       .tasks = task_names(program.kind),
       .description = program.description,
       .add_flags =
           [&](CLI::App& app) {
             flags = &app;
             app.add_flag("--table", table,
                          "train nothing: print the finished runs in --out beside published results");
             app.add_flag("--figures", figures,
                          "train nothing: draw accuracy, speed and losses of the runs in --out");
             if (program.draw_sheet == nullptr) return;
             app.add_option("--sheet", sheet, "train nothing: draw images of the task into this file")->check(path());
           },
       .instead_of_training =
           [&](const Settings& settings) {
             if (table || figures) check_only_out(*flags);
             if (!sheet.empty()) program.draw_sheet(settings, sheet);
             const std::filesystem::path folder = settings.out.empty() ? "out" : settings.out;
             if (table) program.print_table(folder);
             if (figures) draw_figures(folder, program.kind);
             return table || figures || !sheet.empty();
           }});
}

}  // namespace linnet::examples
