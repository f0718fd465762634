#include "data/document_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace leeway {
namespace {

using testing::ElementsAre;

class Collected final : public DocumentSink {
 public:
  void add_text(std::string_view text) override { open_.append(text); }
  void end_document() override {
    documents.push_back(open_);
    open_.clear();
  }
  std::vector<std::string> documents;

 private:
  std::string open_;
};

// Splits in blocks of every small size: wherever a separator is torn, the result must be the same.
std::vector<std::string> split(const std::string& rule, const std::vector<std::string>& files) {
  const auto options = parse_documents(rule);
  EXPECT_TRUE(options.ok());
  std::vector<std::string> whole;
  for (size_t block = 100'000; block > 0; block = block > 20 ? 20 : block - 1) {
    Collected sink;
    DocumentSplitter splitter(*options, sink);
    for (const std::string& file : files) {
      for (size_t at = 0; at < file.size(); at += block) splitter.add(file.substr(at, block));
      splitter.end_file();
    }
    if (block == 100'000) whole = sink.documents;
    EXPECT_EQ(sink.documents, whole) << "in blocks of " << block;
  }
  return whole;
}

TEST(DocumentSplitter, AFileIsADocument) {
  EXPECT_THAT(split("auto", {"one\n", "two", "", " \n"}), ElementsAre("one\n", "two"));
  EXPECT_THAT(split("file", {"a<|endoftext|>b"}), ElementsAre("a<|endoftext|>b"));
}

TEST(DocumentSplitter, EndOfTextSeparates) {
  EXPECT_THAT(split("auto", {"a<|endoftext|>b"}), ElementsAre("a", "b"));
  EXPECT_THAT(split("auto", {"a\n<|endoftext|>\nb\n"}), ElementsAre("a\n", "b\n"));
  EXPECT_THAT(split("auto", {"a\r\n<|endoftext|>\r\nb"}), ElementsAre("a\r\n", "b"));
  EXPECT_THAT(split("auto", {"<|endoftext|>a<|endoftext|><|endoftext|>b<|endoftext|>\n"}),
              ElementsAre("a", "b"));
  EXPECT_THAT(split("auto", {"a<|endoftext|", "b"}), ElementsAre("a<|endoftext|", "b"));
  EXPECT_THAT(split("auto", {"a<|endoftext|>\r"}), ElementsAre("a"));
}

TEST(DocumentSplitter, TagLinesSeparateIfTheFileStartsWithOne) {
  const std::string wiki =
      "\n<doc id=\"1\" title=\"A\">\nA\n\nText <doc of a.\n</doc>\n\n"
      "<doc id=\"2\">\nB\n</doc>\n";
  EXPECT_THAT(split("auto", {wiki}), ElementsAre("A\n\nText <doc of a.\n", "B\n"));
  // The next file is decided separately: tags in its middle are text.
  EXPECT_THAT(split("auto", {wiki, "x\n<doc id>\n"}),
              ElementsAre("A\n\nText <doc of a.\n", "B\n", "x\n<doc id>\n"));
  EXPECT_THAT(split("auto", {"<doc>\nno tag of that kind\n"}),
              ElementsAre("<doc>\nno tag of that kind\n"));
  EXPECT_THAT(split("auto", {"<doc 1>\na\n</do"}), ElementsAre("a\n</do"));
}

TEST(DocumentSplitter, Lines) {
  EXPECT_THAT(split("line", {"a\nb\r\n\n  \nc", "d\n"}), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(split("line", {"a\rb\n"}), ElementsAre("a\rb"));
}

TEST(DocumentSplitter, BlankLines) {
  EXPECT_THAT(split("blank-line", {"a\nb\n\nc\n \t\n\n\nd"}), ElementsAre("a\nb\n", "c\n", "d"));
  EXPECT_THAT(split("blank-line", {"\n\na\r\n\r\nb\n"}), ElementsAre("a\r\n", "b\n"));
}

TEST(DocumentSplitter, ACustomSeparator) {
  EXPECT_THAT(split("---", {"a---b--c"}), ElementsAre("a", "b--c"));
  EXPECT_THAT(split("\\n%%\\n", {"a\n%%\nb%%\n"}), ElementsAre("a", "b%%\n"));
  // overlaps its own start
  EXPECT_THAT(split("separator:aab", {"xaaaby"}), ElementsAre("xa", "y"));
  EXPECT_EQ(parse_documents("\\t\\\\n\\x")->separator, "\t\\n\\x");
  ASSERT_FALSE(parse_documents("").ok());
  EXPECT_EQ(parse_documents("").error().kind, ErrorKind::kUsage);
}

TEST(DocumentSplitter, ASlipIsNotASeparator) {
  for (const char* word : {"lines", "blankline", "blank_line", "AUTO", "CHAPTER"}) {
    const auto parsed = parse_documents(word);
    ASSERT_FALSE(parsed.ok()) << word;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kUsage);
    EXPECT_NE(parsed.error().message.find(std::string("separator:") + word), std::string::npos);
  }
  EXPECT_EQ(parse_documents("separator:CHAPTER")->separator, "CHAPTER");
}

TEST(DocumentSplitter, BytesArriveUnchanged) {
  const std::string bytes("\xff\0\xc3 \r\xf0\x9f", 7);
  EXPECT_THAT(split("auto", {bytes}), ElementsAre(bytes));
  EXPECT_THAT(split("auto", {"  leading and trailing \n"}),
              ElementsAre("  leading and trailing \n"));
}

// White space is kept until text follows; a file of spaces must not fill the memory.
TEST(DocumentSplitter, MuchWhiteSpaceIsText) {
  const std::string spaces(5000, ' ');
  EXPECT_THAT(split("auto", {spaces}), ElementsAre(spaces));
  EXPECT_THAT(split("blank-line", {"a\n" + spaces + "\nb"}), ElementsAre("a\n" + spaces + "\nb"));
  EXPECT_THAT(split("auto", {spaces + "<doc 1>\na\n"}), ElementsAre(spaces + "<doc 1>\na\n"));
  EXPECT_THAT(split("auto", {std::string(4000, ' ')}), ElementsAre());
}

}  // namespace
}  // namespace leeway
