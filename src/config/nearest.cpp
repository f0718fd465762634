#include "config/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace leeway {
namespace {

// One letter of four may be wrong, at most three, and one of a word of three: "widht" matches
// width, "depth" does not. No advice is better than wrong advice.
int distance_max(std::string_view word) {
  if (word.size() < 3) return 0;
  return std::clamp(static_cast<int>(std::min<size_t>(word.size(), 100)) / 4, 1, 3);
}

}  // namespace

int typing_distance(std::string_view a, std::string_view b) {
  // Rows of the edit table for the prefixes of `a` of length i-2, i-1 and i.
  std::vector<int> before_last(b.size() + 1);
  std::vector<int> last(b.size() + 1);
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::optional<std::string_view> nearest(std::string_view word,
                                        const std::vector<std::string_view>& candidates) {
  std::optional<std::string_view> best;
  int best_distance = distance_max(word) + 1;
  for (const std::string_view candidate : candidates) {
    // Most candidates are ruled out by length alone, so even a very long word is cheap.
    const size_t longer = std::max(word.size(), candidate.size());
    const size_t shorter = std::min(word.size(), candidate.size());
    if (longer - shorter >= static_cast<size_t>(best_distance)) continue;
    const int distance = typing_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates,
                         std::string_view otherwise) {
  const auto meant = nearest(word, candidates);
  return meant ? fmt::format(", did you mean {}?", *meant) : std::string(otherwise);
}

}  // namespace leeway
