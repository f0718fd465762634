#include "data/text_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace leeway {
namespace {

using testing::HasSubstr;

std::string noun_of(std::string_view begin) {
  const auto found = not_text(begin);
  return found ? found->noun : "text";
}

TEST(TextCheck, MagicNumbersTellWhatAFileIs) {
  using namespace std::string_literals;
  EXPECT_EQ(noun_of("PAR1\x15\x04"), "Parquet file");
  EXPECT_EQ(noun_of("\xFD"
                    "7zXZ\0\0"s),
            "xz file");
  EXPECT_EQ(noun_of("BZh91AY&SY\x01"), "bzip2 file");
  EXPECT_EQ(noun_of("PK\x03\x04\x14"), "zip archive");
  EXPECT_EQ(noun_of("\x89PNG\r\n\x1A\n"), "PNG image");
  EXPECT_EQ(noun_of("\xFF\xD8\xFF\xE0"), "JPEG image");
  EXPECT_EQ(noun_of("%PDF-1.7\n"), "PDF file");
  EXPECT_EQ(noun_of("\x7F"
                    "ELF\x02"),
            "ELF program");
  EXPECT_EQ(noun_of("\x93NUMPY\x01"), "NumPy file");
  EXPECT_EQ(noun_of("\x80\x04\x95\x10"), "Python pickle");
  EXPECT_EQ(noun_of("\x40\0\0\0\0\0\0\0{\"a\":"s), "safetensors file");
  EXPECT_EQ(noun_of(std::string(257, 'x') + "ustar"), "tar archive");
  EXPECT_EQ(noun_of("LEEWAYTK\x01"), "token file");
}

TEST(TextCheck, OtherEncodingsSayHowToConvertThem) {
  using namespace std::string_literals;
  EXPECT_THAT(
      not_text("\xFF\xFEh\0i\0"s)->sentence("a.txt"),
      testing::StrEq("a.txt is UTF-16, not UTF-8; convert it with iconv -f utf-16 -t utf-8"));
  EXPECT_THAT(not_text("h\0e\0l\0l\0o\0"s)->advice, HasSubstr("utf-16le"));
  EXPECT_THAT(not_text("\0h\0e\0l\0l\0o"s)->advice, HasSubstr("utf-16be"));
  EXPECT_THAT(not_text("\xFF\xFE\0\0h\0\0\0"s)->advice, HasSubstr("utf-32"));
  std::string latin1;
  for (int i = 0; i < 50; ++i)
    latin1 +=
        "Stra\xDF"
        "e \xFC"
        "ber den Flu\xDF. ";
  EXPECT_THAT(not_text(latin1)->sentence("b.txt"), HasSubstr("b.txt is not UTF-8 text; convert"));
}

TEST(TextCheck, AZeroByteIsNoText) {
  EXPECT_THAT(not_text(std::string("ab\0cdefgh", 9))->sentence("a"),
              HasSubstr("a is a binary file, not text (byte 2 is zero)"));
}

TEST(TextCheck, TextIsText) {
  EXPECT_EQ(noun_of(""), "text");
  EXPECT_EQ(noun_of("BZh is a word, PK and GIF too"), "text");
  EXPECT_EQ(noun_of("\xEF\xBB\xBFwith a byte order mark"), "text");
  std::string slips = "\xFF\xC3 caf\xE9";  // Crawled text has a few broken bytes.
  EXPECT_EQ(noun_of(slips), "text");
  for (int i = 0; i < 1000; ++i) slips += "words, ";
  EXPECT_EQ(noun_of(slips + "\xFF\xFF\xFF"), "text");
  std::string greek;
  for (int i = 0; i < 40'000; ++i) greek += "\xCE\xB1";
  EXPECT_EQ(noun_of(greek), "text");
  EXPECT_EQ(noun_of("x" + greek), "text");  // The last character that is looked at is cut off.
}

TEST(TextCheck, TablesAreKnownByName) {
  EXPECT_EQ(table_of("a/b.csv")->noun, "CSV table");
  EXPECT_EQ(table_of("b.tsv.gz")->noun, "TSV table");
  EXPECT_THAT(table_of("b.csv")->sentence("b.csv"), HasSubstr("convert it to JSONL"));
  EXPECT_FALSE(table_of("csv.txt").has_value());
}

}  // namespace
}  // namespace leeway
