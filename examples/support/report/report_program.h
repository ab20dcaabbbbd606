#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/settings/settings.h"

namespace linnet::examples {

/// A program that trains the tasks of one kind, and sets finished runs side by side.
struct ReportProgram {
  std::string name;
  TaskKind kind;
  std::string description;
  /// Prints the results of all finished runs in a folder and its subfolders.
  void (*print_table)(const std::filesystem::path& folder);
  /// Draws examples of the data, with --sheet FILE; null if the program cannot do that.
  void (*draw_sheet)(const Settings& settings, const std::filesystem::path& path) = nullptr;
  /// The flags that decide what it draws, besides --task and --preset; others are refused.
  std::vector<std::string> sheet_flags = {};
};

/// The main function of such a program: train_program, with the flags --table and --figures. Returns the exit code.
int report_program(int argc, char** argv, const ReportProgram& program);

/// Prints the results of all finished runs of the Long Range Arena in `folder` and its subfolders: a table for each
/// preset and data set, with the mean of the seeds, and the published tables with a row for each of linnet's
/// mechanisms. Throws IoError if there is no such run.
void print_lra_table(const std::filesystem::path& folder);
/// The same for classifiers of texts, beside the tables of Wu et al. 2021.
void print_classify_table(const std::filesystem::path& folder);

}  // namespace linnet::examples
