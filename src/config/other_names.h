// What other programs call our keys, so that a newcomer's word is answered with ours.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace leeway {

// Goes after the unknown name, whatever table it was written in: ", did you mean optimizer.rate?".
// Case, underscores and a plural's s do not matter.
std::optional<std::string> other_name_advice(std::string_view name);

}  // namespace leeway
