// Advice about an unknown name or a value that a key does not take.
#pragma once

#include <string>
#include <string_view>

#include "config/keys.h"

namespace leeway {

// How to spell a suggestion from the table that the user named.
enum class Spelling { kPath, kName };

// Goes after the unknown name: ", did you mean model.width?", or a list of what exists.
std::string key_advice(std::string_view unknown_path, Spelling spelling);
std::string table_advice(std::string_view unknown_name);

// "model.width is 0, allowed: a whole number from 1 to 65536".
std::string refusal(const Key& key, const Value& value);

}  // namespace leeway
