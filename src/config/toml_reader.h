// Text to entries with line numbers. The only door to toml++.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/value.h"

namespace leeway {

struct TomlEntry {
  std::string path;                     // "model.width"; parts that are no bare words are quoted
  std::vector<std::string> parts = {};  // of the path, as they are
  int64_t line = 0;
  bool is_table = false;  // a header such as [model]; its keys follow as entries of their own
  Value value;
};

// Every table and every key, in the order of the lines; a list of tables is an entry itself, and
// then its tables are, as "name[0]" and so on. `source_name` goes into the error.
Result<std::vector<TomlEntry>> read_toml(std::string_view text, std::string_view source_name);

// One value as it stands on the right of "=". The error is toml++'s description alone.
Result<Value> read_toml_value(std::string_view text);

}  // namespace leeway
