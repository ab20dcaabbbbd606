/// Trains a classifier of long sequences on a task of the Long Range Arena (Tay et al. 2021), and prints and draws
/// the results of several runs: tables 1 and 2 and figures 5 and 6 of Gerami et al. 2024.

#include "support/report/report_program.h"

int main(int argc, char** argv) {
  return linnet::examples::report_program(
      argc, argv,
      {.name = "lra",
       .kind = linnet::examples::TaskKind::sequences,
       .description = "Trains a classifier of long sequences on a task of the Long Range Arena.",
       .print_table = linnet::examples::print_lra_table});
}
