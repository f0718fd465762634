#include "recipe/vocabulary.h"

#include <gtest/gtest.h>

#include <fstream>

#include "../../support/temporary_folder.h"

namespace leeway {
namespace {

Result<int64_t> vocabulary_of(const std::string& train, const std::string& tokenizer = "bytes") {
  DataOptions data;
  data.train = {train};
  data.tokenizer = tokenizer;
  return recipe_vocabulary(data);
}

TEST(RecipeVocabulary, OfTextIsTheTokenizers) {
  // The text itself is never opened.
  EXPECT_EQ(vocabulary_of("no/such/text").value(), 257);
  EXPECT_FALSE(vocabulary_of("x.txt", "hf:no/such.json").ok());
}

TEST(RecipeVocabulary, OfAForeignTokenFileIsOneMoreThanItsLargestId) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "ids.bin";
  const uint16_t ids[] = {5, 700, 3};
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(ids), sizeof ids);
  EXPECT_EQ(vocabulary_of(path.string()).value(), 701);
}

TEST(RecipeVocabulary, OfAMissingTokenFileIsAnError) {
  const auto vocabulary = vocabulary_of("no/such.bin");
  ASSERT_FALSE(vocabulary.ok());
  EXPECT_NE(vocabulary.error().message.find("no/such.bin"), std::string::npos);
}

}  // namespace
}  // namespace leeway
