// A few small documents, enough to train a tiny model for a few updates.
#pragma once

#include <string>
#include <vector>

namespace leeway {

inline std::vector<std::string> small_texts() {
  std::vector<std::string> texts;
  for (int i = 0; i < 12; ++i) {
    std::string& text = texts.emplace_back();
    for (int j = 0; j < 20; ++j) text += "word" + std::to_string((i * j) % 17) + " ";
  }
  return texts;
}

}  // namespace leeway
