#include "report/validation_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace leeway {

std::string validation_differences(const RunData& run, const RunData& against) {
  const auto windows = [](const RunData& of) {
    return of.validation.windows > 0 ? fmt::format("{}", of.validation.windows) : "";
  };
  const std::array<std::array<std::string, 3>, 4> facts = {{
      {"text", run.validation.text_hash, against.validation.text_hash},
      {"tokenizer", run.validation.tokenizer_hash, against.validation.tokenizer_hash},
      {"context", run.setting("model.context"), against.setting("model.context")},
      {"number of windows", windows(run), windows(against)},
  }};
  std::string text;
  for (const auto& [name, own, other] : facts) {
    if (own.empty() || other.empty() || own == other) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
  }
  return text;
}

ValidationGroups validation_groups(const std::vector<RunData>& runs) {
  struct Group {
    const RunData* first;
    std::vector<std::string> names;
  };
  std::vector<Group> groups;
  ValidationGroups made;
  std::string different;  // between the first two groups
  for (const RunData& run : runs) {
    made.letters.emplace_back();
    if (!run.headline.valid_loss) continue;
    size_t at = 0;
    while (at < groups.size() && !validation_differences(run, *groups[at].first).empty()) ++at;
    if (at == groups.size()) groups.push_back({&run, {}});
    groups[at].names.push_back(run.name);
    made.letters.back() = at < 26 ? std::string(1, static_cast<char>('A' + at)) : "other";
    if (at == 1 && different.empty()) different = validation_differences(run, *groups[0].first);
  }
  if (groups.size() < 2) {
    made.letters.assign(runs.size(), "");
    return made;
  }
  std::string list;
  for (size_t i = 0; i < groups.size(); ++i) {
    list += fmt::format("{}of {}",
                        i == 0                   ? ""
                        : i + 1 == groups.size() ? " and "
                                                 : ", ",
                        fmt::join(groups[i].names, ", "));
  }
  made.note =
      fmt::format("the validation losses {} are not comparable: validation had a different {}",
                  list, different);
  return made;
}

}  // namespace leeway
