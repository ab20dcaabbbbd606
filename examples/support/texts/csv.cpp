#include <fmt/format.h>
#include <linnet/core/files/csv_rows.h>
#include <linnet/core/files/read_file.h>

#include "support/texts/formats.h"
#include "support/texts/lines.h"

namespace linnet::examples {

std::vector<LabelledText> read_labelled_csv(const std::filesystem::path& path, const LabelledTextSettings& settings,
                                            MalformedLines& malformed) {
  const TextColumns columns(settings);
  std::string text = linnet::detail::read_file(path);
  refuse_byte_0(text, path.string());
  std::vector<LabelledText> texts;
  size_t width = 0;  // cells of the first row
  for (linnet::detail::CsvRows row(text, ','); row.next();) {
    const std::string place = fmt::format("{}, line {}", path.string(), row.line());
    if (!row.fault().empty()) {
      malformed.add(place, row.fault());
      continue;
    }
    const size_t count = row.cells().size();
    if (width == 0) width = count;
    if (count != width) {
      malformed.add(place, fmt::format("{} cells, but the first row has {}{}", count, width,
                                       count > width ? "; put a cell with ',' in it into double quotes" : ""));
    } else {
      columns.add({row.cells().begin(), row.cells().end()}, place, texts, malformed);
    }
  }
  return texts;
}

}  // namespace linnet::examples
