#include <fmt/format.h>
#include <linnet/nn/data/csv.h>

#include "support/texts/formats.h"

namespace linnet::examples {

std::vector<LabelledText> read_labelled_csv(const std::filesystem::path& path, const LabelledTextSettings& settings,
                                            MalformedLines& malformed) {
  const TextColumns columns(settings);
  const std::vector<std::vector<std::string>> rows = nn::read_csv(path, {.header = false}).texts();
  std::vector<LabelledText> texts;
  for (size_t row = 0; row < rows.size(); ++row) {
    columns.add(rows[row], fmt::format("{}, row {}", path.string(), row + 1), texts, malformed);
  }
  return texts;
}

}  // namespace linnet::examples
