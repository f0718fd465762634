// "Did you mean ...?"
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace leeway {

// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
int typing_distance(std::string_view a, std::string_view b);

// The candidate that `word` is most likely a misspelling of; none when nothing is close. The first
// of equals wins.
std::optional<std::string_view> nearest(std::string_view word,
                                        const std::vector<std::string_view>& candidates);

// To follow an unknown word: ", did you mean width?"; `otherwise` when nothing is close.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates,
                         std::string_view otherwise = "");

}  // namespace leeway
