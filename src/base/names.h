// Names for folders, of words that people chose.
#pragma once

#include <string>
#include <string_view>

namespace leeway {

// "async + sparse" -> "async_sparse": letters that need no quotes in any shell, and no hidden file.
// `otherwise`: where nothing is left.
std::string plain_name(std::string_view text, std::string_view otherwise);

}  // namespace leeway
