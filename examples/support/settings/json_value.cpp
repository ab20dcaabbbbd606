#include "support/settings/json_value.h"

#include <linnet/core/files/json_text.h>

namespace linnet::examples {

nlohmann::json parse_json(std::string_view text) {
  using linnet::detail::JsonText;
  const auto fail = [](const std::string& why) { throw nlohmann::json::other_error::create(501, why, nullptr); };
  if (std::ssize(text) > JsonText::kMaxSettings) {
    fail(fmt::format("it has more than {} bytes", JsonText::kMaxSettings));
  }
  try {
    JsonText json(text);
    json.value();
    json.end();
  } catch (const linnet::detail::JsonError& error) {
    fail(error.what());
  }
  return nlohmann::json::parse(text);
}

}  // namespace linnet::examples
