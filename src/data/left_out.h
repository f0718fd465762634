// What `data prepare` did not read: files of a folder that are not text, broken lines of JSONL.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/input_files.h"
#include "data/json_lines.h"
#include "data/text_check.h"

namespace leeway {

class LeftOut {
 public:
  void add_file(const InputFile& file, const NotText& why);
  void add_lines(const InputFile& file, const JsonLines& lines);

  uint64_t file_count() const { return files_; }
  // One sentence each about files and lines; empty if nothing was left out.
  std::vector<std::string> notes(const std::string& field) const;

 private:
  uint64_t files_ = 0;
  std::string first_file_;
  std::map<std::string, uint64_t> kinds_;
  uint64_t lines_ = 0;
  std::vector<std::string> first_lines_;  // "a.jsonl line 3"
  std::string first_reason_;
};

// A file of JSONL without any document: what its first line has instead.
std::string no_document_in(const InputFile& file, const JsonLines& lines, const std::string& field);

}  // namespace leeway
