#include "data/json_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace leeway {
namespace {

using LineJson = nlohmann::ordered_json;  // keeps the order of the fields, for the message

constexpr std::string_view kLineWhite = " \t\r\n\f\v";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

LineJson parse_line(std::string_view line) {
  return LineJson::parse(line, nullptr, /*allow_exceptions=*/false);
}

// "id, body and 2 more"
std::string field_names(const LineJson& object) {
  constexpr size_t kShown = 5;
  std::string names;
  size_t count = 0;
  for (const auto& [name, value] : object.items()) {
    if (++count > kShown) continue;
    if (count > 1) names += ", ";
    names += name;
  }
  if (count > kShown) names += fmt::format(" and {} more", count - kShown);
  return names;
}

// Why there is no document in the line; empty if there is one.
std::string trouble_with(const LineJson& json, const std::string& field) {
  if (json.is_discarded()) return "is not JSON";
  if (!json.is_object()) return "is not a JSON object";
  const auto found = json.find(field);
  if (found == json.end() && json.empty()) return "has no fields";
  if (found == json.end()) return fmt::format("has the fields {}", field_names(json));
  if (!found->is_string()) return fmt::format("has a field '{}' that is not a string", field);
  return "";
}

}  // namespace

bool is_named_json_lines(const Path& path) {
  Path name = path.filename();
  if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
  return name.extension() == ".jsonl" || name.extension() == ".ndjson";
}

bool starts_json_lines(std::string_view begin, const std::string& field) {
  const size_t end = begin.find('\n');
  if (end == begin.npos) return false;
  const std::string_view line = begin.substr(0, end);
  if (!line.starts_with('{')) return false;
  return trouble_with(parse_line(line), field).empty();
}

JsonLines::JsonLines(std::string field, DocumentSink& sink)
    : field_(std::move(field)), sink_(sink) {}

void JsonLines::add(std::string_view block) {
  while (!block.empty()) {
    const size_t end = std::min(block.find('\n'), block.size());
    const bool ends = end < block.size();
    const std::string_view part = block.substr(0, end);
    block.remove_prefix(ends ? end + 1 : end);
    if (ends && line_.empty() && !too_long_) {
      end_line(part);  // The usual case: no copy.
      continue;
    }
    too_long_ = too_long_ || line_.size() + part.size() > kLineBytesMax;
    if (too_long_) {
      line_.clear();
    } else {
      line_.append(part);
    }
    if (!ends) continue;
    end_line(line_);
    line_.clear();
    too_long_ = false;
  }
}

void JsonLines::end_file() {
  if (!line_.empty() || too_long_) end_line(line_);
  line_.clear();
  too_long_ = false;
}

void JsonLines::end_line(std::string_view line) {
  ++line_number_;
  if (too_long_) return skip(fmt::format("is longer than {} MiB", kLineBytesMax >> 20));
  if (line_number_ == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(3);
  if (line.find_first_not_of(kLineWhite) == line.npos) return;
  const LineJson json = parse_line(line);
  if (std::string trouble = trouble_with(json, field_); !trouble.empty()) {
    return skip(std::move(trouble));
  }
  const auto& text = json.find(field_)->get_ref<const std::string&>();
  ++documents_;
  if (text.find_first_not_of(kLineWhite) == text.npos) return;  // As in text: not a document.
  sink_.add_text(text);
  sink_.end_document();
}

void JsonLines::skip(std::string reason) {
  if (broken_++ == 0) first_reason_ = std::move(reason);
  if (first_broken_.size() < kNamedMax) first_broken_.push_back(line_number_);
}

}  // namespace leeway
