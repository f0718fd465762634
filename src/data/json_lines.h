// JSONL: one JSON object per line, whose string field is a document.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "data/document_splitter.h"

namespace leeway {

// Whether the name says so: .jsonl or .ndjson, also compressed.
bool is_named_json_lines(const Path& path);

// Whether `begin`, the first bytes of a file, has a whole first line that is an object with a
// string in `field`: data sets often call such files .json, and standard input has no name.
bool starts_json_lines(std::string_view begin, const std::string& field);

// Reads one file. Lines without a document are skipped and counted; blank lines are ignored.
class JsonLines {
 public:
  // A document is read whole: a longer line could fill the memory, and is skipped.
  static constexpr size_t kLineBytesMax = 64 * 1024 * 1024;
  static constexpr size_t kNamedMax = 3;

  JsonLines(std::string field, DocumentSink& sink);
  void add(std::string_view block);
  void end_file();

  uint64_t document_count() const { return documents_; }
  uint64_t broken_count() const { return broken_; }
  const std::vector<uint64_t>& first_broken() const { return first_broken_; }  // line numbers
  const std::string& first_reason() const { return first_reason_; }  // why the first was skipped

 private:
  void end_line(std::string_view line);
  void skip(std::string reason);

  std::string field_;
  DocumentSink& sink_;
  std::string line_;       // the start of a line that goes on in the next block
  bool too_long_ = false;  // the current line is; its text is dropped
  uint64_t line_number_ = 0;
  uint64_t documents_ = 0;
  uint64_t broken_ = 0;
  std::vector<uint64_t> first_broken_;
  std::string first_reason_;
};

}  // namespace leeway
