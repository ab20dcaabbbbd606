#include <linnet/core/error.h>

#include <cstring>

#include <fmt/format.h>

namespace linnet {
namespace {

thread_local const Call* outermost_call = nullptr;

std::string describe(const std::string& message) {
  if (outermost_call == nullptr) return message;
  const Where where = outermost_call->where();
  const char* slash = std::strrchr(where.file, '/');
  return fmt::format("{}{}: {} ({}:{})", outermost_call->prefix(), outermost_call->name(), message,
                     slash ? slash + 1 : where.file, where.line);
}

}  // namespace

Call::Call(const char* name, Where where, const char* prefix)
    : name_(name), prefix_(prefix), where_(where), is_outermost_(outermost_call == nullptr) {
  if (is_outermost_) outermost_call = this;
}

Call::~Call() {
  if (is_outermost_) outermost_call = nullptr;
}

const Call* Call::outermost() { return outermost_call; }

Error::Error(const std::string& message)
    : std::runtime_error(describe(message)),
      begin_(outermost_call == nullptr
                 ? 0
                 : std::strlen(outermost_call->prefix()) + std::strlen(outermost_call->name()) + std::strlen(": ")),
      size_(message.size()) {}

}  // namespace linnet
