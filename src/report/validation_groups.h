// Which runs of a page have validation losses that can be compared.
#pragma once

#include <string>
#include <vector>

#include "report/run_data.h"

namespace leeway {

// "text, tokenizer": how the two validations differ, of what is known about both. Empty: their
// losses can be compared.
std::string validation_differences(const RunData& run, const RunData& against);

struct ValidationGroups {
  // "A", "B", ... for each run; "" for all of them if all can be compared, and for a run without a
  // validation loss.
  std::vector<std::string> letters;
  std::string note;  // which runs cannot be compared, and why; empty: all can
};
ValidationGroups validation_groups(const std::vector<RunData>& runs);

}  // namespace leeway
