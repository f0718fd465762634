#include "data/text_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "../../support/data_files.h"
#include "../../support/temporary_folder.h"

namespace leeway {
namespace {

using testing::HasSubstr;

Result<std::string> read_all(const Path& path, size_t block_bytes = 7) {
  LEEWAY_ASSIGN(const auto source, TextSource::open({.path = path}));
  std::string text;
  std::vector<char> block(block_bytes);
  while (true) {
    LEEWAY_ASSIGN(const size_t got, source->read(block));
    text.append(block.data(), got);
    if (got < block.size()) return text;
  }
}

std::string error_of(const Path& path) {
  const auto text = read_all(path);
  EXPECT_FALSE(text.ok());
  return text.ok() ? "" : text.error().message;
}

// Long enough to fill every buffer several times.
std::string long_text() {
  std::string text;
  for (int i = 0; i < 60'000; ++i) text += std::to_string(i * 7919) + (i % 9 == 0 ? "\n" : " ");
  return text;
}

TEST(TextSource, ReadsPlainBytesAsTheyAre) {
  const TemporaryFolder folder;
  const std::string broken("a\0\xff\xfe\xc3\r\n", 7);  // not valid UTF-8, which is fine here
  EXPECT_EQ(*read_all(write_data(folder / "a.txt", broken)), broken);
  EXPECT_EQ(*read_all(write_data(folder / "empty.txt", "")), "");
  EXPECT_EQ(*read_all(write_data(folder / "long.txt", long_text()), 1000), long_text());
}

TEST(TextSource, ErrorsNameTheFile) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of(folder / "missing.txt"),
              HasSubstr("missing.txt: No such file or directory (check the path)"));
  write_data(folder / "file", "");
  EXPECT_THAT(error_of(folder / "file" / "below"), HasSubstr("Not a directory"));
  EXPECT_THAT(error_of(folder.path()), HasSubstr("name a file, not a folder"));
}

#ifdef LEEWAY_ZLIB
TEST(TextSource, UnpacksGzip) {
  const TemporaryFolder folder;
  const std::string text = long_text();
  EXPECT_EQ(*read_all(write_data(folder / "a.gz", gzip(text)), 1000), text);
  EXPECT_EQ(*read_all(write_data(folder / "one-call.gz", gzip(text)), text.size() + 1), text);
  EXPECT_EQ(*read_all(write_data(folder / "several.gz", gzip("one ") + gzip("") + gzip("two"))),
            "one two");
  EXPECT_EQ(*read_all(write_data(folder / "no-extension", gzip("found by magic"))),
            "found by magic");
}

TEST(TextSource, DamagedGzipIsAnError) {
  const TemporaryFolder folder;
  const std::string packed = gzip(long_text());
  EXPECT_THAT(error_of(write_data(folder / "cut.gz", packed.substr(0, packed.size() / 2))),
              HasSubstr("cut.gz is a gzip file that ends too early; get the file again"));
  EXPECT_THAT(error_of(write_data(folder / "empty.gz", "")), HasSubstr("ends too early"));
  EXPECT_THAT(error_of(write_data(folder / "text.gz", "plain text in disguise")),
              HasSubstr("is not a gzip file, or a damaged one"));
  std::string wrong = packed;
  wrong[wrong.size() - 6] = static_cast<char>(wrong[wrong.size() - 6] + 1);  // the checksum
  EXPECT_THAT(error_of(write_data(folder / "wrong.gz", wrong)), HasSubstr("damaged"));
}
#endif

#ifdef LEEWAY_ZSTD
TEST(TextSource, UnpacksZstandard) {
  const TemporaryFolder folder;
  const std::string text = long_text();
  EXPECT_EQ(*read_all(write_data(folder / "a.zst", zstd(text)), 1000), text);
  EXPECT_EQ(*read_all(write_data(folder / "one-call.zst", zstd(text)), text.size() + 1), text);
  EXPECT_EQ(*read_all(write_data(folder / "several.zst", zstd("one ") + zstd("") + zstd("two"))),
            "one two");
  EXPECT_EQ(*read_all(write_data(folder / "no-extension", zstd("found by magic"))),
            "found by magic");
}

TEST(TextSource, DamagedZstandardIsAnError) {
  const TemporaryFolder folder;
  const std::string packed = zstd(long_text());
  EXPECT_THAT(error_of(write_data(folder / "cut.zst", packed.substr(0, packed.size() / 2))),
              HasSubstr("cut.zst is a Zstandard file that ends too early; get the file again"));
  EXPECT_THAT(error_of(write_data(folder / "empty.zst", "")), HasSubstr("ends too early"));
  EXPECT_THAT(error_of(write_data(folder / "text.zst", "plain text in disguise")),
              HasSubstr("is not a Zstandard file, or a damaged one"));
}

TEST(TextSource, AZstandardWindowThatNeedsTooMuchMemoryIsAnError) {
  const TemporaryFolder folder;
  // A minimal frame: magic, no flags, a window of 2^(10 + exponent) bytes; then one stored block of
  // one byte, the last.
  const auto frame = [](int exponent) {
    return std::string("\x28\xb5\x2f\xfd\x00", 5) + static_cast<char>(exponent << 3) +
           std::string("\x09\x00\x00x", 4);
  };
  EXPECT_EQ(*read_all(write_data(folder / "64-mib.zst", frame(16))), "x");
  const std::string name = write_data(folder / "128-mib.zst", frame(17));
  EXPECT_EQ(error_of(name), name +
                                " needs more than 64 MiB of memory to unpack, which is the limit "
                                "here; unpack it first with `zstd -d --long=31`");
}
#endif

TEST(TextSource, MeasuresStoredBytes) {
  const TemporaryFolder folder;
  const auto source = TextSource::open({.path = write_data(folder / "a.txt", "0123456789")});
  ASSERT_TRUE(source.ok());
  EXPECT_EQ((*source)->stored_bytes_read(), 0U);
  std::vector<char> block(4);
  EXPECT_EQ(*(*source)->read(block), 4U);
  EXPECT_EQ((*source)->stored_bytes_read(), 4U);
}

TEST(TextSource, ReadsAPipe) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "one two three", 13), 13);
  ::close(ends[1]);
  const auto text = read_all("/dev/fd/" + std::to_string(ends[0]), 6);
  ::close(ends[0]);
  EXPECT_EQ(*text, "one two three");
}

}  // namespace
}  // namespace leeway
