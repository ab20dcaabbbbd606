/// Trains an encoder–decoder that writes summaries (Wu et al. 2021, tables 3 and 6). It summarises the test articles
/// by beam search and rates the summaries by ROUGE.

#include <fmt/format.h>

#include "support/run/train_program.h"
#include "support/summaries/report.h"

using linnet::examples::Settings;
using linnet::examples::TaskKind;
using linnet::examples::TrainingResult;

int main(int argc, char** argv) {
  return linnet::examples::train_program(
      argc, argv,
      {.name = "summarise",
       .tasks = linnet::examples::task_names(TaskKind::summaries),
       .description = "Trains an encoder–decoder that writes summaries of articles.",
       .finish = [](const Settings& settings, const TrainingResult& result) {
         const std::string table = linnet::examples::summary_table(settings, result);
         if (!table.empty()) fmt::print("\n{}", table);
       }});
}
