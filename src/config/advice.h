// What to say about a name or a value that the table of keys does not know.
#pragma once

#include <string>
#include <string_view>

#include "config/keys.h"

namespace leeway {

// How a suggestion is spelled when it is in the table that the user named.
enum class Spelling { kPath, kName };

// To follow the unknown name: ", did you mean model.width?", or what there is to choose from.
std::string key_advice(std::string_view unknown_path, Spelling spelling);
std::string table_advice(std::string_view unknown_name);

// "model.width is 0, allowed: a whole number from 1 to 65536".
std::string refusal(const Key& key, const Value& value);

}  // namespace leeway
