#include "events/line_facts.h"

#include <charconv>

#include "events/event.h"

namespace leeway {
namespace {

LineKind kind_of(std::string_view word) {
  if (word == "work") return LineKind::kWork;
  if (word == "started") return LineKind::kStarted;
  if (word == "resumed") return LineKind::kResumed;
  if (word == "joined") return LineKind::kJoined;
  return LineKind::kOther;
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  return error == std::errc() && end == last ? std::optional(value) : std::nullopt;
}

// Goes through {"name":value,...} without spaces, escapes and nested values.
class UsualForm {
 public:
  explicit UsualForm(std::string_view line) : line_(line) {}

  // False: the line has another form, or is no event, and only a parser can tell.
  bool read(LineFacts& facts) {
    if (line_.find('\\') != line_.npos || line_.empty() || line_.front() != '{') return false;
    while (at_ + 1 < line_.size()) {
      if (!member(facts)) return false;
    }
    if (replica_ && stage_) facts.worker = {.replica = {*replica_}, .stage = {*stage_}};
    return has_kind_ && at_ + 1 == line_.size() && line_[at_] == '}';
  }

 private:
  // One member with the comma or brace before it; ends before the comma or brace after it.
  bool member(LineFacts& facts) {
    const size_t begin = at_;
    if (line_[at_] != (begin == 0 ? '{' : ',')) return false;
    ++at_;
    std::string_view name, value;
    if (!text(name) || at_ >= line_.size() || line_[at_] != ':') return false;
    ++at_;
    const bool is_text = at_ < line_.size() && line_[at_] == '"';
    if (is_text ? !text(value) : !bare(value)) return false;
    if (name == "event") {
      facts.kind = kind_of(value);
      has_kind_ = true;
      return is_text;
    }
    if (name == "replica") return !is_text && take(value, replica_);
    if (name == "stage") return !is_text && take(value, stage_);
    if (name != "tick") return true;
    facts.tick_begin = begin;
    facts.tick_end = at_;
    // Without a comma before it, or for a second time, a parser takes it out.
    return begin > 0 && !is_text && !facts.tick && take(value, facts.tick);
  }

  bool text(std::string_view& found) {
    if (at_ >= line_.size() || line_[at_] != '"') return false;
    const size_t end = line_.find('"', at_ + 1);
    if (end == line_.npos) return false;
    found = line_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return true;
  }

  // A number, true, false or null.
  bool bare(std::string_view& found) {
    constexpr std::string_view kLetters = "+-.0123456789Eaeflnrstu";
    const size_t end = line_.find_first_of(",}", at_);
    if (end == line_.npos || end == at_) return false;
    found = line_.substr(at_, end - at_);
    at_ = end;
    return found.find_first_not_of(kLetters) == found.npos;
  }

  static bool take(std::string_view value, std::optional<int64_t>& number) {
    number = whole_number(value);
    return number.has_value();
  }

  std::string_view line_;
  size_t at_ = 0;
  bool has_kind_ = false;
  std::optional<int64_t> replica_ = {};
  std::optional<int64_t> stage_ = {};
};

}  // namespace

Result<LineFacts> facts_of(std::string_view line) {
  LineFacts facts;
  if (UsualForm(line).read(facts)) return facts;
  facts = {};
  LEEWAY_ASSIGN(const Event event, Event::parse(line));
  facts.kind = kind_of(event.kind());
  facts.tick = event.integer("tick");
  if (event.find("tick") != nullptr && !facts.tick) return Error{"\"tick\" is no whole number"};
  const auto replica = event.integer("replica");
  const auto stage = event.integer("stage");
  if (replica && stage) facts.worker = {.replica = {*replica}, .stage = {*stage}};
  return facts;
}

void append_without_tick(std::string_view line, const LineFacts& facts, std::string& out) {
  if (!facts.tick) {
    out += line;
  } else if (facts.tick_end > facts.tick_begin) {
    out.append(line.substr(0, facts.tick_begin)).append(line.substr(facts.tick_end));
  } else {
    out += Event::parse(line).value().remove("tick").line();
  }
}

}  // namespace leeway
