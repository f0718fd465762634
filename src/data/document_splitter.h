// Finds the documents in a stream of text. Blocks may end anywhere, also inside a separator.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace leeway {

enum class DocumentRule {
  kAuto,       // <doc ...> tag lines if the file begins with one, else <|endoftext|>
  kFile,       // a file is a document
  kLine,       // a line is one, without its line break
  kBlankLine,  // blank lines separate them
  kSeparator,  // a string of the user's own does
};

struct DocumentOptions {
  DocumentRule rule = DocumentRule::kAuto;
  std::string separator;  // of kSeparator
};

// auto | file | line | blank-line | a separator, in which \n, \t, \r and \\ may be written.
Result<DocumentOptions> parse_documents(const std::string& text);

class DocumentSink {
 public:
  virtual ~DocumentSink() = default;
  virtual void add_text(std::string_view text) = 0;  // more of the current document
  virtual void end_document() = 0;
};

// A file's end ends its last document. Separators and tag lines are no part of any document; a
// document of white space alone is none. All other bytes reach the sink as they are.
class DocumentSplitter {
 public:
  DocumentSplitter(DocumentOptions options, DocumentSink& sink);
  void add(std::string_view block);
  void end_file();

 private:
  enum class Scan { kUndecided, kWhole, kLiteral, kLines, kBlankLines, kTags };
  enum class LineKind { kText, kBoundary, kUndecided };

  // Each looks at all text that was not used yet and returns how much of it is used now; the rest
  // comes again with more behind it. `at_end`: nothing more will come, use all.
  size_t scan(std::string_view text, bool at_end);
  size_t scan_literal(std::string_view text, bool at_end);
  size_t scan_lines(std::string_view text, bool at_end);
  size_t scan_marked_lines(std::string_view text, bool at_end);
  bool decide(std::string_view text, bool at_end);
  LineKind classify(std::string_view line, bool complete) const;
  void start_file();
  void emit(std::string_view text);
  void close_document();

  DocumentOptions options_;
  DocumentSink& sink_;
  Scan scan_ = Scan::kUndecided;
  std::string unused_;     // what no scan could decide about yet: short
  std::string blank_;      // white space at the start of a document, kept until text follows
  bool has_text_ = false;  // of the current document, some has gone to the sink
  bool line_starts_ = true;
  bool skipping_line_ = false;
};

}  // namespace leeway
