#include "data/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "../../support/data_files.h"
#include "../../support/fake_tokenizer.h"
#include "../../support/file_size_limit.h"
#include "../../support/temporary_folder.h"

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Path write_ids(const Path& path, const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  auto writer = TokenFileWriter::create(path, tokenizer);
  EXPECT_TRUE(writer.ok());
  EXPECT_TRUE(writer->append(ids).ok());
  EXPECT_TRUE(writer->commit(3, 70).ok());
  return path;
}

std::string error_of(const Path& path) {
  const auto file = TokenFile::open(path);
  EXPECT_FALSE(file.ok());
  return file.ok() ? "" : file.error().message;
}

std::string bytes_of(const std::vector<int32_t>& words) {
  std::string bytes(words.size() * 4, '\0');
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

TEST(TokenFile, KeepsIdsAndTheirDescription) {
  const TemporaryFolder folder;
  const FakeTokenizer tokenizer;
  const Path path = write_ids(folder / "a.tokens", tokenizer, {1, 2, 256});
  const auto file = TokenFile::open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_THAT(ids_in(path), ElementsAre(1, 2, 256));
  EXPECT_EQ(file->info().count, 3U);
  EXPECT_EQ(file->info().token_bytes, 2U);
  EXPECT_EQ(file->info().vocabulary, 257U);
  EXPECT_EQ(file->info().tokenizer_hash, tokenizer.hash());
  EXPECT_EQ(file->info().documents, 3U);
  EXPECT_EQ(file->info().text_bytes, 70U);
  EXPECT_EQ(file->largest_id(), 256U);
  EXPECT_TRUE(file->check_content().ok());
  EXPECT_EQ(std::filesystem::file_size(path), 64U + 6U);
  EXPECT_TRUE(is_token_file(path));
}

TEST(TokenFile, WidensWithTheVocabulary) {
  const TemporaryFolder folder;
  FakeTokenizer tokenizer;
  tokenizer.size = 65536;
  const Path narrow = write_ids(folder / "narrow.tokens", tokenizer, {65535});
  EXPECT_EQ(TokenFile::open(narrow)->info().token_bytes, 2U);
  EXPECT_THAT(ids_in(narrow), ElementsAre(65535));
  tokenizer.size = 65537;
  const Path wide = write_ids(folder / "wide.tokens", tokenizer, {65536, 7});
  EXPECT_EQ(TokenFile::open(wide)->info().token_bytes, 4U);
  EXPECT_THAT(ids_in(wide), ElementsAre(65536, 7));
}

TEST(TokenFile, ReadsFromTheMiddle) {
  const TemporaryFolder folder;
  const Path path = write_ids(folder / "a.tokens", FakeTokenizer(), {10, 11, 12, 13});
  const auto file = TokenFile::open(path);
  std::vector<int64_t> ids(2);
  file->read(1, ids);
  EXPECT_THAT(ids, ElementsAre(11, 12));
  EXPECT_DEATH(file->read(3, ids), "past the last id");
}

TEST(TokenFile, SaysHowMuchOfATruncatedFileIsMissing) {
  const TemporaryFolder folder;
  const Path path =
      write_ids(folder / "a.tokens", FakeTokenizer(), std::vector<TokenId>(50, TokenId{5}));
  std::filesystem::resize_file(path, 64 + 20);
  EXPECT_EQ(
      error_of(path),
      path.string() + " has only 10 of the 50 ids that its header declares; prepare it again");
  std::filesystem::resize_file(path, 64 + 21);
  EXPECT_THAT(error_of(path), HasSubstr("10 of the 50"));
  std::filesystem::resize_file(path, 63);
  EXPECT_THAT(error_of(path), HasSubstr("cut off inside its header"));
}

TEST(TokenFile, RejectsForeignFiles) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of(write_data(folder / "text.tokens", "It was a dark night.")),
              HasSubstr("is not a token file; make one with `leeway data prepare`"));
  EXPECT_THAT(error_of(write_data(folder / "empty.tokens", "")), HasSubstr("not a token file"));
  EXPECT_THAT(error_of(folder / "missing.tokens"), HasSubstr("No such file"));
  EXPECT_THAT(error_of(folder.path()), HasSubstr("not a folder"));
  EXPECT_FALSE(is_token_file(folder / "text.tokens"));
  EXPECT_FALSE(is_token_file(folder / "missing.tokens"));
}

TEST(TokenFile, RejectsOtherVersionsAndWidths) {
  const TemporaryFolder folder;
  const Path path = write_ids(folder / "a.tokens", FakeTokenizer(), {1});
  std::string bytes = *read_text(path);
  bytes[8] = 2;
  EXPECT_THAT(error_of(write_data(folder / "v2.tokens", bytes)), HasSubstr("has version 2"));
  bytes[8] = 1;
  bytes[12] = 3;
  EXPECT_THAT(error_of(write_data(folder / "w3.tokens", bytes)), HasSubstr("damaged header"));
}

TEST(TokenFile, NamesTheFirstIdOutsideTheVocabulary) {
  const TemporaryFolder folder;
  const Path path = write_ids(folder / "a.tokens", FakeTokenizer(), {1, 2, 200, 3, 256});
  const auto file = TokenFile::open(path);
  EXPECT_TRUE(file->check_ids(257).ok());
  const Status status = file->check_ids(200);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message,
              HasSubstr("has id 200 at position 2, outside the vocabulary of 200; prepare"));
}

TEST(TokenFile, NoticesChangedContent) {
  const TemporaryFolder folder;
  const Path path = write_ids(folder / "a.tokens", FakeTokenizer(), {1, 2, 3});
  std::string bytes = *read_text(path);
  bytes[66] = 9;
  const auto file = TokenFile::open(write_data(folder / "b.tokens", bytes));
  const Status status = file->check_content();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("was changed after it was written"));
}

TEST(TokenFile, OpenHashedRejectsChangedContent) {
  const TemporaryFolder folder;
  const Path path = write_ids(folder / "a.tokens", FakeTokenizer(), {1, 2, 3});
  const auto file = TokenFile::open_hashed(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->info().content_hash, TokenFile::open(path)->info().content_hash);
  std::string bytes = *read_text(path);
  bytes[66] = 9;
  const auto changed = TokenFile::open_hashed(write_data(folder / "b.tokens", bytes));
  ASSERT_FALSE(changed.ok());
  EXPECT_THAT(changed.error().message, HasSubstr("b.tokens was changed after it was written"));
}

TEST(TokenFile, OpenHashedGivesForeignFilesAHash) {
  const TemporaryFolder folder;
  const auto hash_of = [&](const std::string& name, std::string_view ids) {
    return TokenFile::open_hashed(write_data(folder / name, ids))->info().content_hash;
  };
  const uint64_t hash = hash_of("a.bin", std::string_view("\x01\0\x02\0", 4));
  EXPECT_NE(hash, 0U);
  EXPECT_EQ(hash_of("same.bin", std::string_view("\x01\0\x02\0", 4)), hash);
  EXPECT_NE(hash_of("a.bin", std::string_view("\x01\0\x03\0", 4)), hash);
}

TEST(TokenFile, ReadsNanoGptFiles) {
  const TemporaryFolder folder;
  const Path path = write_data(folder / "train.bin", std::string("\x01\x00\x50\xc4", 4));
  EXPECT_THAT(ids_in(path), ElementsAre(1, 0xc450));
  EXPECT_EQ(TokenFile::open(path)->info().vocabulary, 0U);
  EXPECT_TRUE(TokenFile::open(path)->check_content().ok());  // there is no hash to compare with
  EXPECT_THAT(error_of(write_data(folder / "odd.bin", "abc")),
              HasSubstr("odd number of bytes (3)"));
  EXPECT_THAT(ids_in(write_data(folder / "empty.bin", "")), ElementsAre());
}

TEST(TokenFile, ReadsLlmcFiles) {
  const TemporaryFolder folder;
  std::vector<int32_t> header(256, 0);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = 2;
  const Path gpt2 =
      write_data(folder / "a.bin", bytes_of(header) + std::string("\x01\x00\x50\xc4", 4));
  EXPECT_THAT(ids_in(gpt2), ElementsAre(1, 0xc450));
  EXPECT_EQ(TokenFile::open(gpt2)->info().vocabulary, 50257U);
  EXPECT_THAT(error_of(write_data(folder / "cut.bin", bytes_of(header) + "ab")),
              HasSubstr("has only 1 of the 2 ids"));
  header[0] = 20240801;
  header[1] = 7;
  header[2] = 1;
  const Path llama = write_data(folder / "b.bin", bytes_of(header) + bytes_of({128000}));
  EXPECT_THAT(ids_in(llama), ElementsAre(128000));
  EXPECT_EQ(TokenFile::open(llama)->info().token_bytes, 4U);
}

TEST(TokenFileWriter, LeavesNothingWithoutCommit) {
  const TemporaryFolder folder;
  {
    auto writer = TokenFileWriter::create(folder / "a.tokens", FakeTokenizer());
    ASSERT_TRUE(writer->append(std::vector<TokenId>{1, 2}).ok());
    EXPECT_EQ(folder.entry_count(), 1U);
  }
  EXPECT_EQ(folder.entry_count(), 0U);
}

TEST(TokenFileWriter, AFullDiskIsAnErrorAndKeepsTheOldFile) {
  const TemporaryFolder folder;
  const Path path = write_ids(folder / "a.tokens", FakeTokenizer(), {1, 2, 3});
  {
    auto writer = TokenFileWriter::create(path, FakeTokenizer());
    ASSERT_TRUE(writer.ok());
    const FileSizeLimit limit(4096);
    const Status status = writer->append(std::vector<TokenId>(10'000, TokenId{5}));
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().message, HasSubstr("cannot write " + path.string()));
  }
  EXPECT_THAT(ids_in(path), ElementsAre(1, 2, 3));
  EXPECT_EQ(folder.entry_count(), 1U);
}

TEST(TokenFileWriterDeathTest, RejectsIdsOutsideTheVocabulary) {
  const TemporaryFolder folder;
  auto writer = TokenFileWriter::create(folder / "a.tokens", FakeTokenizer());
  EXPECT_DEATH(static_cast<void>(writer->append(std::vector<TokenId>{257})), "own vocabulary");
}

}  // namespace
}  // namespace leeway
