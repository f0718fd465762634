#include "data/json_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace leeway {
namespace {

using testing::ElementsAre;

class Documents final : public DocumentSink {
 public:
  void add_text(std::string_view text) override { open_ += text; }
  void end_document() override { all.push_back(std::exchange(open_, "")); }
  std::vector<std::string> all;

 private:
  std::string open_;
};

TEST(JsonLines, ALineIsADocument) {
  Documents documents;
  JsonLines lines("text", documents);
  lines.add("\xEF\xBB\xBF{\"text\": \"a\\nb\", \"id\": 1}\r\n\n{\"text\": \"\\u00e9\"}\n");
  lines.add("{\"text\": \"  \"}\n{\"text\": \"no line break at the end\"}");
  lines.end_file();
  EXPECT_THAT(documents.all, ElementsAre("a\nb", "\xC3\xA9", "no line break at the end"));
  EXPECT_EQ(lines.document_count(), 4U);
  EXPECT_EQ(lines.broken_count(), 0U);
}

TEST(JsonLines, BlocksDoNotMatter) {
  const std::string content = "{\"text\": \"one\"}\n{broken\n\n{\"text\": \"two\"}\n";
  for (size_t block = 1; block <= content.size(); ++block) {
    Documents documents;
    JsonLines lines("text", documents);
    for (size_t at = 0; at < content.size(); at += block) lines.add(content.substr(at, block));
    lines.end_file();
    EXPECT_THAT(documents.all, ElementsAre("one", "two")) << block;
    EXPECT_THAT(lines.first_broken(), ElementsAre(2)) << block;
  }
}

TEST(JsonLines, BrokenLinesAreCountedAndNamed) {
  Documents documents;
  JsonLines lines("body", documents);
  lines.add("{\"text\": \"x\", \"id\": 2}\n{\"body\": \"good\"}\n[1]\n{\"body\": 7}\n{\"bo");
  lines.end_file();
  EXPECT_THAT(documents.all, ElementsAre("good"));
  EXPECT_EQ(lines.broken_count(), 4U);
  EXPECT_THAT(lines.first_broken(), ElementsAre(1, 3, 4));  // the first few
  EXPECT_EQ(lines.first_reason(), "has the fields text, id");
}

TEST(JsonLines, ManyBracketsAreJustABrokenLine) {
  Documents documents;
  JsonLines lines("text", documents);
  lines.add(std::string(1'000'000, '[') + "\n{\"text\": \"a\"}\n");
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  lines.add("{\"text\": \"b\", \"deep\": " + deep + "}\n" + deep + "\n");
  lines.end_file();
  EXPECT_EQ(lines.broken_count(), 2U);
  EXPECT_THAT(documents.all, ElementsAre("a", "b"));
}

TEST(JsonLines, NamesAndFirstLinesTell) {
  EXPECT_TRUE(is_named_json_lines("a/b.jsonl"));
  EXPECT_TRUE(is_named_json_lines("b.jsonl.zst"));
  EXPECT_TRUE(is_named_json_lines("b.ndjson.gz"));
  EXPECT_FALSE(is_named_json_lines("b.json"));
  EXPECT_TRUE(starts_json_lines("{\"text\": \"a\"}\n{", "text"));
  EXPECT_FALSE(starts_json_lines("{\"text\": \"a\"}\n", "body"));
  EXPECT_FALSE(starts_json_lines("{\n\"text\": \"a\"}\n", "text"));
  EXPECT_FALSE(starts_json_lines("{ x\n", "text"));
}

}  // namespace
}  // namespace leeway
