#include "base/names.h"

namespace leeway {

std::string plain_name(std::string_view text, std::string_view otherwise) {
  std::string name;
  for (const char c : text) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '=' || c == '-';
    if (kept) name.push_back(c);
    if (!kept && !name.empty() && name.back() != '_') name.push_back('_');
  }
  while (name.starts_with('.') || name.starts_with('-')) name.erase(0, 1);
  return name.empty() ? std::string(otherwise) : name;
}

}  // namespace leeway
