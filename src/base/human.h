// Numbers for people to read.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace leeway {

// "1.2 MB", "3 min 20 s": for use in a sentence.
std::string human_bytes(uint64_t bytes);
std::string human_seconds(double seconds);
std::string human_count(uint64_t count);  // 2,448,382

// "1 run", "2,448 runs".
template <std::integral Integer>
std::string counted(Integer count, std::string_view thing) {
  std::string text = human_count(static_cast<uint64_t>(count)) + ' ';
  text += thing;
  return count == 1 ? text : text + 's';
}

// "1.2 GB", for any size.
std::string shown_bytes(double bytes);

}  // namespace leeway
