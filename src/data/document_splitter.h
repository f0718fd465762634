// Finds the documents in a stream of text. Blocks may end anywhere, even inside a separator.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/result.h"

namespace leeway {

enum class DocumentRule {
  kAuto,       // <doc ...> tag lines if the file starts with one, else <|endoftext|>
  kFile,       // each file is a document
  kLine,       // each line is a document, without its line break
  kBlankLine,  // blank lines separate documents
  kSeparator,  // a string of the user's choice separates documents
};

struct DocumentOptions {
  DocumentRule rule = DocumentRule::kAuto;
  std::string separator;  // for kSeparator
};

inline constexpr std::array<std::string_view, 4> kDocumentRules = {"auto", "file", "line",
                                                                   "blank-line"};

// One of kDocumentRules, or a separator, which may contain \n, \t, \r and \\. Another single word
// is more likely a slip than a separator, and refused unless it is written separator:WORD.
Result<DocumentOptions> parse_documents(const std::string& rule);

class DocumentSink {
 public:
  virtual ~DocumentSink() = default;
  virtual void add_text(std::string_view text) = 0;  // more of the current document
  virtual void end_document() = 0;
};

// The end of a file ends its last document. Separators and tag lines are not part of any document;
// white space alone is not a document. All other bytes reach the sink unchanged.
class DocumentSplitter {
 public:
  DocumentSplitter(DocumentOptions options, DocumentSink& sink);
  void add(std::string_view block);
  void end_file();

 private:
  enum class Scan { kUndecided, kWhole, kLiteral, kLines, kBlankLines, kTags };
  enum class LineKind { kText, kBoundary, kUndecided };

  // Each one gets all text that is not used yet and returns how much it used; the rest comes again
  // with more text after it. `at_end`: no more text follows, use all of it.
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
  std::string unused_;     // text that no scan could decide on yet; short
  std::string blank_;      // white space at the start of a document, kept until text follows
  bool has_text_ = false;  // some of the current document has gone to the sink
  bool line_starts_ = true;
  bool skipping_line_ = false;
};

}  // namespace leeway
