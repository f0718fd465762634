// Tells text from files that are not text, by their name and first bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"

namespace leeway {

// Why a file cannot be read as text, and what to do about it.
struct NotText {
  std::string noun;    // "PNG image", to count
  std::string what;    // "a PNG image, not text"
  std::string advice;  // "leave it out"

  std::string sentence(std::string_view name) const;
};

// Tables are recognized by name alone: their content is text, but not what a model should read.
std::optional<NotText> table_of(const Path& path);

// `begin`: the first bytes of the content, unpacked. Known magic numbers, UTF-16, zero bytes and
// bytes that are mostly not UTF-8 are not text. A few broken characters are: crawled text has them.
std::optional<NotText> not_text(std::string_view begin);

// Text that has a zero byte at `position`.
NotText with_zero_byte(uint64_t position);

}  // namespace leeway
