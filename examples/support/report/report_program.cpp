#include "support/report/report_program.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "support/report/figures.h"
#include "support/run/train_program.h"
#include "support/settings/program.h"

namespace linnet::examples {
namespace {

/// Throws UsageError for a flag that is not one of these, beside flags that train nothing.
void check_only(const CLI::App& app, const std::vector<std::string>& allowed, const std::string& beside) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = "--" + option->get_single_name();
    if (option->count() == 0 || std::ranges::find(allowed, name) != allowed.end()) continue;
    throw UsageError(fmt::format("{} does not apply to {} nothing; leave it out", name, beside));
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
             if (table || figures) {
               check_only(*flags, {"--table", "--figures", "--out"}, "--table and --figures, which train");
             }
             if (!sheet.empty()) {
               std::vector<std::string> allowed = program.sheet_flags;
               allowed.insert(allowed.end(), {"--sheet", "--task", "--preset"});
               check_only(*flags, allowed, "--sheet, which trains");
               program.draw_sheet(settings, sheet);
             }
             const std::filesystem::path folder = settings.out.empty() ? "out" : settings.out;
             if (table) program.print_table(folder);
             if (figures) draw_figures(folder, program.kind);
             return table || figures || !sheet.empty();
           }});
}

}  // namespace linnet::examples
