#include <algorithm>
#include <cstdlib>
#include <string>

#include <linnet/core/error.h>
#include <linnet/nn/data/csv.h>

#include "tests/fuzz/fuzz_target.h"

/// CSV files. The first byte of the input chooses the separator, and whether there is a header.

namespace linnet::fuzz {

const int64_t memory_allowance = int64_t{1} << 20;

void run(Bytes input) {
  if (input.empty()) return;
  const File file(input.subspan(1));
  const nn::CsvOptions options{.separator = (input[0] & 1U) != 0 ? ',' : ';', .header = (input[0] & 2U) != 0};
  const nn::Table table = checked(input, [&] { return nn::read_csv(file.path(), options); });
  constexpr size_t kMost = 4;  // columns, since each takes a pass over the table
  for (size_t i = 0; i < std::min(kMost, table.names().size()); ++i) {
    const std::string& name = table.names()[i];
    try {
      if (static_cast<int64_t>(table.texts(name).size()) != table.rows()) std::abort();
      if (table.categories(name).indices.numel() != table.rows()) std::abort();
    } catch (const Error&) {
    }
    for (const DType dtype : {DType::float32, DType::float64, DType::int32, DType::int64}) {
      try {
        if (table.column(name, dtype).numel() != table.rows()) std::abort();
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace linnet::fuzz
