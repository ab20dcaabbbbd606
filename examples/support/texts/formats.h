#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/settings/settings.h"
#include "support/texts/malformed_lines.h"

/// The formats of texts with labels. To add one, add a file and a row in text_formats().

namespace linnet::examples {

/// A text with its label, and where it was read, for messages: "news.tsv, line 3".
struct LabelledText {
  std::string text, label, place;
};

/// A format of files.
struct TextFormat {
  std::string name;                  ///< of --format
  std::vector<std::string> endings;  ///< of file names: ".jsonl"
  std::vector<LabelledText> (*read)(const std::filesystem::path& path, const LabelledTextSettings& settings,
                                    MalformedLines& malformed);
};

const std::vector<TextFormat>& text_formats();
/// The words of --format: `auto` and the formats' names.
std::vector<std::string> text_format_names();

/// The format that --format names, or that of the file name's ending; null if no format has this ending.
const TextFormat* text_format_of(const std::filesystem::path& path, const LabelledTextSettings& settings);

/// The first of --format, --text-field, --label-field and --strict whose value is not the preset's; null if there is
/// none.
const char* flag_of_files(const Settings& settings);

/// The texts of a file, in its order.
///
/// Throws: UsageError for a name without a format's ending, and for fields that the format cannot have; IoError for a
/// file that cannot be read or has no text, and for a malformed line with --strict.
std::vector<LabelledText> read_text_file(const std::filesystem::path& path, const LabelledTextSettings& settings,
                                         MalformedLines& malformed);

/// `.jsonl`: one object per line. Its fields are `text` and `label`, or those that the settings name.
std::vector<LabelledText> read_jsonl(const std::filesystem::path& path, const LabelledTextSettings& settings,
                                     MalformedLines& malformed);
/// `.tsv`: tabs separate the columns, and quotes have no meaning. The label is column 1, and the text is all others,
/// or those whose numbers the settings give.
std::vector<LabelledText> read_tsv(const std::filesystem::path& path, const LabelledTextSettings& settings,
                                   MalformedLines& malformed);
/// `.csv` without a header, as RFC 4180 describes it. A row with more or fewer cells than the first, or with a quote
/// without an end, is malformed. The columns are as in `.tsv`.
std::vector<LabelledText> read_labelled_csv(const std::filesystem::path& path, const LabelledTextSettings& settings,
                                            MalformedLines& malformed);
/// A folder with a folder for each label, whose files `*.txt` are its texts, in the order of their names. A folder
/// `unsup` is skipped: it holds the reviews of IMDb without a label. So is what is hidden.
///
/// Throws: IoError for a folder that cannot be read, and for a label without texts.
std::vector<LabelledText> read_text_folder(const std::filesystem::path& folder);

/// The columns of a table that hold the label and the text.
struct TextColumns {
  size_t label = 0;
  std::vector<size_t> text = {};  ///< empty: all others

  /// Throws: UsageError for a setting that is no list of numbers from 1 on, or for a label in the text.
  explicit TextColumns(const LabelledTextSettings& settings);
  /// Adds the text and the label of a line with these cells, or a malformed line if they are absent.
  void add(const std::vector<std::string>& cells, const std::string& place, std::vector<LabelledText>& texts,
           MalformedLines& malformed) const;
};

/// The words of a comma-separated list.
std::vector<std::string> words_of_list(const std::string& list);

}  // namespace linnet::examples
