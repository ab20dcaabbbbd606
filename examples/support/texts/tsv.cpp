#include <string_view>

#include "support/texts/formats.h"
#include "support/texts/lines.h"

namespace linnet::examples {

std::vector<LabelledText> read_tsv(const std::filesystem::path& path, const LabelledTextSettings& settings,
                                   MalformedLines& malformed) {
  const TextColumns columns(settings);
  std::vector<LabelledText> texts;
  for (LineReader file(path); file.next();) {
    std::vector<std::string> cells;
    for (std::string_view rest = file.line();;) {
      const size_t tab = rest.find('\t');
      cells.emplace_back(rest.substr(0, tab));
      if (tab == std::string_view::npos) break;
      rest.remove_prefix(tab + 1);
    }
    columns.add(cells, file.place(), texts, malformed);
  }
  return texts;
}

}  // namespace linnet::examples
