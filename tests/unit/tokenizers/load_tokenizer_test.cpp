#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "../../support/temporary_folder.h"
#include "../../support/tiny_tokenizer.h"

namespace leeway {
namespace {

using testing::HasSubstr;

Error refusal(const std::string& spec) {
  const auto loaded = load_tokenizer(spec);
  EXPECT_FALSE(loaded.ok()) << spec;
  return loaded.ok() ? Error{} : loaded.error();
}

TEST(LoadTokenizer, AnUnknownNameIsAUsageError) {
  for (const std::string spec : {"foo", "", "foo:bar", "byte", "bytes:x"}) {
    const Error error = refusal(spec);
    EXPECT_EQ(error.kind, ErrorKind::kUsage);
    EXPECT_EQ(error.message, "unknown tokenizer '" + spec +
                                 "'; use bytes, gpt2:DIR, sentencepiece:FILE or hf:FILE");
  }
}

TEST(LoadTokenizer, APathIsNeeded) {
  EXPECT_EQ(refusal("gpt2").kind, ErrorKind::kUsage);
  EXPECT_EQ(refusal("gpt2:").message, "tokenizer 'gpt2:' needs a path: gpt2:DIR");
  EXPECT_EQ(refusal("hf:").message, "tokenizer 'hf:' needs a path: hf:FILE");
}

TEST(LoadTokenizer, AMissingFileIsNotAUsageError) {
  for (const std::string spec : {"gpt2:no/such", "hf:no/such", "saved:no/such"}) {
    const Error error = refusal(spec);
    EXPECT_EQ(error.kind, ErrorKind::kFailed) << spec;
    EXPECT_THAT(error.message, HasSubstr("no/such"));
  }
}

class SavedTokenizer : public testing::Test {
 protected:
  void SetUp() override {
    write_tiny_gpt2(folder_.path());
    ASSERT_TRUE(must_load("gpt2:" + folder_.path().string())->save(folder_.path()).ok());
  }
  std::string spec() const { return "saved:" + folder_.path().string(); }
  TemporaryFolder folder_;
};

TEST_F(SavedTokenizer, AChangedFileIsNoticed) {
  write_file(folder_ / "tokenizer.json", tiny_hf({{"a", "b"}}).dump());
  EXPECT_THAT(refusal(spec()).message, HasSubstr("was changed: its hash is"));
}

TEST_F(SavedTokenizer, ADamagedDescriptionIsNoticed) {
  for (const std::string_view text : {"", "{}", "[]", "{\"kind\": 3}", "{\"kind\": \"gpt2\"}"}) {
    write_file(folder_ / "leeway_tokenizer.json", text);
    EXPECT_THAT(refusal(spec()).message, HasSubstr("leeway_tokenizer.json is damaged"));
  }
  write_file(folder_ / "leeway_tokenizer.json", R"({"kind": "new", "hash": "0"})");
  EXPECT_THAT(refusal(spec()).message, HasSubstr("kind 'new'"));
}

TEST_F(SavedTokenizer, AnUnwritableFolderIsAnError) {
  const auto tokenizer = must_load(spec());
  write_file(folder_ / "file", "");
  EXPECT_FALSE(tokenizer->save(folder_ / "file").ok());
}

}  // namespace
}  // namespace leeway
