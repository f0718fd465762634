#include "config/toml_depth.h"

#include <gtest/gtest.h>

#include "config/toml_reader.h"

namespace leeway {
namespace {

std::string times(std::string_view text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(TomlDepth, AKeyOfThousandsOfPartsIsRefusedBeforeItIsParsed) {
  for (const std::string& toml :
       {times("a.", 8000) + "a = 1", "[" + times("a.", 8000) + "a]",
        "x = {" + times("a.", 8000) + "a = 1}", "x = " + times("[", 100'000),
        "x = " + times("{a=", 20'000), "\"b\"." + times("'a' . ", 100) + "a = 1"}) {
    const auto entries = read_toml("# one\n" + toml, "deep.toml");
    ASSERT_FALSE(entries.ok());
    EXPECT_EQ(entries.error().message.substr(0, 12), "deep.toml:2:");
    EXPECT_NE(entries.error().message.find("nested more than 16 deep"), std::string::npos);
  }
  EXPECT_FALSE(read_toml_value(times("[", 100'000)).ok());
  EXPECT_FALSE(read_toml_value("{" + times("a.", 8000) + "a = 1}").ok());
}

TEST(TomlDepth, StringsCommentsAndNumbersDoNotCount) {
  const std::string dots = times(".[{", 100);
  for (const std::string& toml :
       {"# " + dots, "a = \"" + dots + "\"", "a = '" + dots + "'", "a = \"\\\"" + dots + "\"",
        "a = \"\"\"\n\"\" " + dots + "\"\"\"", "a = '''" + dots + "'''",
        "a = [" + times("1.5, ", 99) + "]", "a = [" + times("[1.5], ", 99) + "]",
        times("a = 1.5\n[b.c]\n", 99), "a = \"\"\"" + dots + "\"\"\"\"\""}) {
    EXPECT_FALSE(too_deep(toml)) << toml;
  }
  const std::string last = "a = \"\"\"x\"\"\"\"\nb = " + times("[", 17);
  EXPECT_TRUE(too_deep(last));
}

TEST(TomlDepth, TheLimitItselfIsAllowed) {
  EXPECT_FALSE(too_deep(times("a.", kTomlDepthMax - 1) + "a = 1"));
  EXPECT_TRUE(too_deep(times("a.", kTomlDepthMax) + "a = 1"));
  EXPECT_TRUE(read_toml("x = " + times("[", 16) + times("]", 16), "t").ok());
}

}  // namespace
}  // namespace leeway
