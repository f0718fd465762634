#include "data/input_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../support/data_files.h"
#include "../../support/temporary_folder.h"
#include "data/data_folder.h"

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class InputFiles : public testing::Test {
 protected:
  InputFiles() {
    for (const char* name : {"b.txt", "a.txt", "c.py", "sub/x.txt", "sub/deep/y.txt", "sub/z.py.gz",
                             "tail/x.txt", ".hidden/h.txt", ".h.txt"}) {
      write_data(folder_ / name, name);
    }
  }
  // Paths below the folder.
  std::vector<std::string> find(const std::string& input,
                                const std::vector<std::string>& include = {}) {
    const auto files = find_inputs({(folder_ / input).string()}, include);
    EXPECT_TRUE(files.ok()) << files.error().message;
    std::vector<std::string> names;
    for (const InputFile& file : *files) {
      names.push_back(file.path.lexically_relative(folder_.path()).string());
    }
    return names;
  }
  std::string error_of(const std::vector<std::string>& inputs) {
    const auto files = find_inputs(inputs, {});
    EXPECT_FALSE(files.ok());
    return files.ok() ? "" : files.error().message;
  }
  TemporaryFolder folder_;
};

TEST_F(InputFiles, AFolderIsWalkedInTheOrderOfNamesWithoutHiddenFiles) {
  EXPECT_THAT(find(""), ElementsAre("a.txt", "b.txt", "c.py", "sub/deep/y.txt", "sub/x.txt",
                                    "sub/z.py.gz", "tail/x.txt"));
}

TEST_F(InputFiles, IncludeSelectsFilesOfFolders) {
  EXPECT_THAT(find("", {"*.py"}), ElementsAre("c.py", "sub/z.py.gz"));
  EXPECT_THAT(find("", {"x.*", "b*"}), ElementsAre("b.txt", "sub/x.txt", "tail/x.txt"));
  EXPECT_THAT(find("a.txt", {"*.py"}), ElementsAre("a.txt"));  // named explicitly
}

TEST_F(InputFiles, PatternsStayWithinOneFolder) {
  EXPECT_THAT(find("*.txt"), ElementsAre("a.txt", "b.txt"));
  EXPECT_THAT(find("[bc].*"), ElementsAre("b.txt", "c.py"));
  EXPECT_THAT(find("?.txt"), ElementsAre("a.txt", "b.txt"));
  EXPECT_THAT(find("*/x.txt"), ElementsAre("sub/x.txt", "tail/x.txt"));
  EXPECT_THAT(find("s*b/x*"), ElementsAre("sub/x.txt"));
}

TEST_F(InputFiles, TwoStarsSearchSubfolders) {
  EXPECT_THAT(find("**/*.txt"),
              ElementsAre("a.txt", "b.txt", "sub/deep/y.txt", "sub/x.txt", "tail/x.txt"));
  EXPECT_THAT(find("sub/**/y.txt"), ElementsAre("sub/deep/y.txt"));
  EXPECT_THAT(find("sub/**"), ElementsAre("sub/deep/y.txt", "sub/x.txt", "sub/z.py.gz"));
}

TEST_F(InputFiles, KeepsTheOrderGivenAndRepetitions) {
  const std::string a = (folder_ / "a.txt").string();
  const std::string b = (folder_ / "b.txt").string();
  const auto files = find_inputs({b, "-", a, b}, {});
  ASSERT_TRUE(files.ok());
  ASSERT_EQ(files->size(), 4U);
  EXPECT_EQ((*files)[0].path, b);
  EXPECT_TRUE((*files)[1].is_stdin());
  EXPECT_FALSE((*files)[1].size_known);
  EXPECT_EQ((*files)[2].path, a);
  EXPECT_EQ((*files)[2].bytes, 5U);
  EXPECT_EQ((*files)[3].path, b);
}

TEST_F(InputFiles, AnExistingNameThatLooksLikeAPatternIsAFile) {
  write_data(folder_ / "odd[1].txt", "");
  EXPECT_THAT(find("odd[1].txt"), ElementsAre("odd[1].txt"));
}

TEST_F(InputFiles, MissingFilesAreErrors) {
  EXPECT_THAT(error_of({(folder_ / "missing.txt").string()}), HasSubstr("No such file"));
  EXPECT_THAT(error_of({(folder_ / "*.md").string()}), HasSubstr("no file matches"));
  std::filesystem::create_directory(folder_ / "none");
  EXPECT_THAT(error_of({(folder_ / "none").string()}), HasSubstr("no files to read in the folder"));
}

TEST_F(InputFiles, PreparedDataIsNotText) {
  ASSERT_TRUE(write_data_info(folder_ / "sub", {}).ok());
  EXPECT_THAT(error_of({(folder_ / "sub").string()}), HasSubstr("made by `leeway data prepare`"));
  EXPECT_THAT(find(""), ElementsAre("a.txt", "b.txt", "c.py", "tail/x.txt"));
}

TEST_F(InputFiles, LinksThatLeadUpAreNotFollowed) {
  std::filesystem::create_directory_symlink("..", folder_ / "tail" / "up");
  EXPECT_THAT(find("tail"), ElementsAre("tail/x.txt"));
  EXPECT_THAT(find("tail/**"), ElementsAre("tail/x.txt"));
}

TEST_F(InputFiles, TheHashSeesEveryChange) {
  const std::vector<InputFile> files = {{.path = "a", .bytes = 1, .modified_ns = 5}};
  auto other = files;
  EXPECT_EQ(hash_inputs(files), hash_inputs(other));
  other[0].bytes = 2;
  EXPECT_NE(hash_inputs(files), hash_inputs(other));
  other = files;
  other[0].modified_ns = 6;
  EXPECT_NE(hash_inputs(files), hash_inputs(other));
  other = files;
  other[0].path = "b";
  EXPECT_NE(hash_inputs(files), hash_inputs(other));
}

}  // namespace
}  // namespace leeway
