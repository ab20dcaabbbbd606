/// Trains a text classifier on words, and prints and draws the results of several runs: tables 1 and 4 of Wu et al.
/// 2021.

#include "support/report/report_program.h"

int main(int argc, char** argv) {
  return linnet::examples::report_program(argc, argv,
                                          {.name = "classify",
                                           .kind = linnet::examples::TaskKind::labelled_texts,
                                           .description = "Trains a classifier of texts by their words.",
                                           .print_table = linnet::examples::print_classify_table});
}
