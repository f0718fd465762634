#include "data/document_splitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace leeway {
namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr std::string_view kSeparatorPrefix = "separator:";
constexpr std::string_view kOpenTag = "<doc ";
constexpr std::string_view kCloseTag = "</doc>";
constexpr std::string_view kWhite = " \t\r\n\f\v";
// White space beyond this counts as text, so that a file of spaces cannot fill the memory.
constexpr size_t kBlankBytesMax = 4096;

// The size of the line break at `position` in bytes; -1: the next block decides.
int line_break_at(std::string_view text, size_t position, bool at_end) {
  if (position == text.size()) return at_end ? 0 : -1;
  if (text[position] == '\n') return 1;
  if (text[position] != '\r') return 0;
  if (position + 1 == text.size()) return at_end ? 0 : -1;
  return text[position + 1] == '\n' ? 2 : 0;
}

bool begins(std::string_view whole, std::string_view part) { return whole.starts_with(part); }

bool is_word(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return std::any_of(text.begin(), text.end(), letter) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return letter(c) || c == '-' || c == '_'; });
}

}  // namespace

Result<DocumentOptions> parse_documents(const std::string& rule) {
  if (rule == "auto") return DocumentOptions{DocumentRule::kAuto, {}};
  if (rule == "file") return DocumentOptions{DocumentRule::kFile, {}};
  if (rule == "line") return DocumentOptions{DocumentRule::kLine, {}};
  if (rule == "blank-line") return DocumentOptions{DocumentRule::kBlankLine, {}};
  if (is_word(rule)) {
    return usage_error(
        fmt::format("'{}' does not say what a document is; give auto, file, line, blank-line, or "
                    "separator:{} if that word separates documents",
                    rule, rule));
  }
  const std::string_view text = begins(rule, kSeparatorPrefix)
                                    ? std::string_view(rule).substr(kSeparatorPrefix.size())
                                    : std::string_view(rule);
  std::string separator;
  for (size_t i = 0; i < text.size(); ++i) {
    const char next = text[i] == '\\' && i + 1 < text.size() ? text[i + 1] : '\0';
    switch (next) {
      case 'n':
        separator += '\n';
        break;
      case 't':
        separator += '\t';
        break;
      case 'r':
        separator += '\r';
        break;
      case '\\':
        separator += '\\';
        break;
      default:
        separator += text[i];
        continue;
    }
    ++i;
  }
  if (separator.empty()) {
    return usage_error(
        "the document separator is empty; give auto, file, line, blank-line or "
        "a string that separates documents");
  }
  return DocumentOptions{DocumentRule::kSeparator, std::move(separator)};
}

DocumentSplitter::DocumentSplitter(DocumentOptions options, DocumentSink& sink)
    : options_(std::move(options)), sink_(sink) {
  if (options_.rule == DocumentRule::kAuto) options_.separator = kEndOfText;
  start_file();
}

void DocumentSplitter::start_file() {
  switch (options_.rule) {
    case DocumentRule::kAuto:
      scan_ = Scan::kUndecided;
      break;
    case DocumentRule::kFile:
      scan_ = Scan::kWhole;
      break;
    case DocumentRule::kLine:
      scan_ = Scan::kLines;
      break;
    case DocumentRule::kBlankLine:
      scan_ = Scan::kBlankLines;
      break;
    case DocumentRule::kSeparator:
      scan_ = Scan::kLiteral;
      break;
  }
  line_starts_ = true;
  skipping_line_ = false;
}

void DocumentSplitter::add(std::string_view block) {
  if (unused_.empty()) {
    unused_ = block.substr(scan(block, false));
  } else {
    unused_.append(block);
    unused_.erase(0, scan(unused_, false));
  }
}

void DocumentSplitter::end_file() {
  const size_t used = scan(unused_, true);
  LEEWAY_CHECK(used == unused_.size(), "all text is used at the end of a file");
  unused_.clear();
  close_document();
  start_file();
}

size_t DocumentSplitter::scan(std::string_view text, bool at_end) {
  if (scan_ == Scan::kUndecided && !decide(text, at_end)) return 0;
  switch (scan_) {
    case Scan::kUndecided:
    case Scan::kWhole:
      emit(text);
      return text.size();
    case Scan::kLiteral:
      return scan_literal(text, at_end);
    case Scan::kLines:
      return scan_lines(text, at_end);
    case Scan::kBlankLines:
    case Scan::kTags:
      return scan_marked_lines(text, at_end);
  }
  return text.size();
}

// The start of a file tells whether WikiExtractor made it.
bool DocumentSplitter::decide(std::string_view text, bool at_end) {
  const size_t first = std::min(text.find_first_not_of(kWhite), text.size());
  const std::string_view word = text.substr(first, kOpenTag.size());
  const bool near = first <= kBlankBytesMax;
  if (!at_end && near && word.size() < kOpenTag.size()) return false;
  scan_ = near && word == kOpenTag ? Scan::kTags : Scan::kLiteral;
  return true;
}

size_t DocumentSplitter::scan_literal(std::string_view text, bool at_end) {
  const std::string& separator = options_.separator;
  size_t begin = 0;
  while (true) {
    const size_t found = text.find(separator, begin);
    if (found == text.npos) {
      // The last bytes may be the start of a separator.
      const size_t keep = at_end ? 0 : std::min(separator.size() - 1, text.size() - begin);
      emit(text.substr(begin, text.size() - keep - begin));
      return text.size() - keep;
    }
    emit(text.substr(begin, found - begin));
    size_t after = found + separator.size();
    if (options_.rule == DocumentRule::kAuto) {
      // <|endoftext|> is often on its own line: then the line break belongs to the separator.
      const int line_break = line_break_at(text, after, at_end);
      if (line_break < 0) return found;
      after += static_cast<size_t>(line_break);
    }
    close_document();
    begin = after;
  }
}

size_t DocumentSplitter::scan_lines(std::string_view text, bool at_end) {
  size_t begin = 0;
  while (true) {
    const size_t end = text.find('\n', begin);
    std::string_view line = text.substr(begin, std::min(end, text.size()) - begin);
    const bool returns = line.ends_with('\r');  // perhaps half of a Windows line break
    if (end == text.npos) {
      if (returns && !at_end) line.remove_suffix(1);
      emit(line);
      return begin + line.size();
    }
    if (returns) line.remove_suffix(1);
    emit(line);
    close_document();
    begin = end + 1;
  }
}

DocumentSplitter::LineKind DocumentSplitter::classify(std::string_view line, bool complete) const {
  if (scan_ == Scan::kTags) {
    if (begins(line, kOpenTag) || begins(line, kCloseTag)) return LineKind::kBoundary;
    const bool may_be_tag = begins(kOpenTag, line) || begins(kCloseTag, line);
    return !complete && may_be_tag ? LineKind::kUndecided : LineKind::kText;
  }
  if (line.find_first_not_of(kWhite) != line.npos) return LineKind::kText;
  if (line.size() > kBlankBytesMax) return LineKind::kText;
  return complete ? LineKind::kBoundary : LineKind::kUndecided;
}

// Scans for lines whose start makes them boundaries. A line may be longer than memory: its kind is
// decided at its start and kept until its end.
size_t DocumentSplitter::scan_marked_lines(std::string_view text, bool at_end) {
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t line_break = text.find('\n', begin);
    const bool ends = line_break != text.npos;
    const size_t end = ends ? line_break + 1 : text.size();
    const std::string_view line = text.substr(begin, end - begin);
    if (line_starts_) {
      const LineKind kind = classify(ends ? line.substr(0, line.size() - 1) : line, ends || at_end);
      if (kind == LineKind::kUndecided) return begin;
      skipping_line_ = kind == LineKind::kBoundary;
      if (skipping_line_) close_document();
    }
    if (!skipping_line_) emit(line);
    line_starts_ = ends;
    begin = end;
  }
  return begin;
}

void DocumentSplitter::emit(std::string_view text) {
  if (text.empty()) return;
  if (!has_text_) {
    const bool blank = text.find_first_not_of(kWhite) == text.npos;
    if (blank && blank_.size() + text.size() <= kBlankBytesMax) {
      blank_.append(text);
      return;
    }
    has_text_ = true;
    if (!blank_.empty()) sink_.add_text(blank_);
  }
  sink_.add_text(text);
}

void DocumentSplitter::close_document() {
  if (has_text_) sink_.end_document();
  has_text_ = false;
  blank_.clear();
}

}  // namespace leeway
