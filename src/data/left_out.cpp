#include "data/left_out.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/human.h"

namespace leeway {

void LeftOut::add_file(const InputFile& file, const NotText& why) {
  if (files_++ == 0) first_file_ = file.name();
  ++kinds_[why.noun];
}

void LeftOut::add_lines(const InputFile& file, const JsonLines& lines) {
  if (lines_ == 0) first_reason_ = lines.first_reason();
  lines_ += lines.broken_count();
  for (const uint64_t line : lines.first_broken()) {
    if (first_lines_.size() == JsonLines::kNamedMax) return;
    first_lines_.push_back(fmt::format("{} line {}", file.name(), line));
  }
}

std::vector<std::string> LeftOut::notes(const std::string& field) const {
  std::vector<std::string> notes;
  if (files_ > 0) {
    std::vector<std::string> kinds;
    for (const auto& [noun, count] : kinds_) kinds.push_back(counted(count, noun));
    notes.push_back(fmt::format("skipped {} that {} not text: {} (first {})",
                                counted(files_, "file"), files_ == 1 ? "is" : "are",
                                fmt::join(kinds, ", "), first_file_));
  }
  if (lines_ > 0) {
    const uint64_t unnamed = lines_ - first_lines_.size();
    notes.push_back(fmt::format(
        "skipped {} of JSONL without text in the field '{}': {}{} (the first {})",
        counted(lines_, "line"), field, fmt::join(first_lines_, ", "),
        unnamed > 0 ? fmt::format(" and {} more", human_count(unnamed)) : "", first_reason_));
  }
  return notes;
}

std::string no_document_in(const InputFile& file, const JsonLines& lines,
                           const std::string& field) {
  return fmt::format(
      "{} has no line with text in the field '{}': line {} {}; name the field that has the text "
      "with `leeway data prepare --field`",
      file.name(), field, lines.first_broken().front(), lines.first_reason());
}

}  // namespace leeway
