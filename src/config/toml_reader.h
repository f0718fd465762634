// Parses TOML into entries with line numbers. Only this code uses toml++.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/value.h"

namespace leeway {

struct TomlEntry {
  std::string path;                     // "model.width"; parts that are not bare words are quoted
  std::vector<std::string> parts = {};  // the path's parts, unquoted
  int64_t line = 0;
  bool is_table = false;  // a header such as [model]; its keys follow as entries of their own
  Value value;
};

// Every table and every key, in line order. A list of tables is an entry, followed by its tables as
// "name[0]" and so on. `source_name` goes into the error.
Result<std::vector<TomlEntry>> read_toml(std::string_view text, std::string_view source_name);

// Parses one value, as on the right of "=". The error is only toml++'s description.
Result<Value> read_toml_value(std::string_view text);

}  // namespace leeway
