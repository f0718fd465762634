// "Did you mean ...?"
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace leeway {

// Number of insertions, deletions, replacements and swaps of neighbours that turn one word into the
// other.
int typing_distance(std::string_view a, std::string_view b);

// The candidate closest to `word`; none if nothing is close. The first one wins a tie.
std::optional<std::string_view> nearest(std::string_view word,
                                        const std::vector<std::string_view>& candidates);

// Goes after an unknown word: ", did you mean width?", or `otherwise` if nothing is close.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates,
                         std::string_view otherwise = "");

}  // namespace leeway
