#include "data/prepare.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "../../support/data_files.h"
#include "../../support/fake_tokenizer.h"
#include "../../support/file_size_limit.h"
#include "../../support/temporary_folder.h"
#include "base/hash.h"

namespace leeway {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class Prepare : public testing::Test {
 protected:
  Result<DataInfo> run(const PrepareOptions& options) {
    return prepare(options, tokenizer_, out_, {});
  }
  std::string error_of(const PrepareOptions& options) {
    const auto info = run(options);
    EXPECT_FALSE(info.ok());
    return info.ok() ? "" : info.error().message;
  }
  static std::vector<std::string> names_in(const Path& path) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  std::string text(const std::string& name, std::string_view content) {
    return write_data(folder_ / name, content);
  }

  TemporaryFolder folder_;
  FakeTokenizer tokenizer_;
  Path out_ = folder_ / "out";
};

TEST_F(Prepare, WritesACompleteFolder) {
  const auto info = run({.inputs = {text("a.txt", "hello")}});
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_THAT(names_in(out_), UnorderedElementsAre("train.tokens", "data.json", "tokenizer"));
  EXPECT_THAT(names_in(folder_.path()), UnorderedElementsAre("a.txt", "out"));
  EXPECT_EQ(text_in(out_ / "train.tokens"), "hello|");
  EXPECT_EQ(info->train.tokens, 5U);
  EXPECT_EQ(info->train.markers, 1U);
  EXPECT_EQ(info->train.documents, 1U);
  EXPECT_FALSE(info->valid.has_value());  // too short to split
  const auto file = TokenFile::open(out_ / "train.tokens");
  EXPECT_EQ(file->info().documents, 1U);
  EXPECT_EQ(file->info().text_bytes, 5U);
}

TEST_F(Prepare, DescribesWhatItMade) {
  const std::string input = text("a.txt", "a\nb\nc\nd\ne\nf\n");
  ASSERT_TRUE(run({.inputs = {input}, .documents = "line", .valid_share = 0.5, .seed = 4}).ok());
  EXPECT_TRUE(is_data_folder(out_));
  const auto info = read_data_info(out_);
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(info->train.documents, 3U);
  ASSERT_TRUE(info->valid.has_value());
  EXPECT_EQ(info->valid->documents, 3U);
  EXPECT_EQ(info->valid->tokens, 3U);
  EXPECT_EQ(info->tokenizer_kind, "fake");
  EXPECT_EQ(info->tokenizer_hash, hash_hex(tokenizer_.hash()));
  EXPECT_EQ(info->vocabulary, 257);
  EXPECT_THAT(info->inputs, ElementsAre(input));
  EXPECT_EQ(info->documents, "line");
  EXPECT_EQ(info->valid_share, 0.5);
  EXPECT_EQ(info->seed, 4U);
}

TEST_F(Prepare, KeepsDocumentsInOrderAndSplitsThemWhole) {
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += "line" + std::to_string(i) + "\n";
  const auto info = run({.inputs = {text("a.txt", lines)}, .documents = "line"});
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->train.documents, 190U);
  EXPECT_EQ(info->valid->documents, 10U);
  const std::string train = text_in(out_ / "train.tokens");
  const std::string valid = text_in(out_ / "valid.tokens");
  size_t train_at = 0;
  size_t valid_at = 0;
  for (int i = 0; i < 200; ++i) {  // Every line comes next in exactly one of the two.
    const std::string line = "line" + std::to_string(i) + "|";
    if (train.compare(train_at, line.size(), line) == 0) {
      train_at += line.size();
    } else {
      ASSERT_EQ(valid.compare(valid_at, line.size(), line), 0) << i;
      valid_at += line.size();
    }
  }
  EXPECT_EQ(train_at, train.size());
  EXPECT_EQ(valid_at, valid.size());
}

TEST_F(Prepare, TheOutputIsTheSameForEveryNumberOfThreads) {
  std::string content;
  for (int i = 0; i < 200'000; ++i) {
    content += "word" + std::to_string(i * 31 % 977) + (i % 700 == 0 ? "<|endoftext|>" : " ");
  }
  const std::string input = text("a.txt", content);
  std::vector<std::string> trains;
  std::vector<std::string> valids;
  for (const int threads : {1, 2, 7}) {
    ASSERT_TRUE(run({.inputs = {input}, .threads = threads}).ok());
    trains.push_back(*read_text(out_ / "train.tokens"));
    valids.push_back(*read_text(out_ / "valid.tokens"));
  }
  EXPECT_EQ(trains[0], trains[1]);
  EXPECT_EQ(trains[0], trains[2]);
  EXPECT_EQ(valids[0], valids[1]);
  EXPECT_EQ(valids[0], valids[2]);
}

TEST_F(Prepare, BytesSurviveExactly) {
  std::string broken;
  for (int i = 0; i < 300'000; ++i) broken += static_cast<char>(i * 37 % 127 + 1);
  for (size_t i = 0; i < broken.size(); i += 500)
    broken[i] = static_cast<char>(128 + i / 500 % 128);
  const std::string input = text("a.txt", broken);
  ASSERT_TRUE(run({.inputs = {input}, .documents = "file", .valid_share = 0.0}).ok());
  std::string back;
  for (const int64_t id : ids_in(out_ / "train.tokens")) {
    if (id < 256) back += static_cast<char>(id);
  }
  EXPECT_EQ(back, broken);
}

TEST_F(Prepare, ATokenizerWithoutAMarkerWritesNone) {
  tokenizer_.marker = std::nullopt;
  const auto info = run({.inputs = {text("a.txt", "a<|endoftext|>b")}, .valid_share = 0.0});
  EXPECT_EQ(text_in(out_ / "train.tokens"), "ab");
  EXPECT_EQ(info->train.markers, 0U);
  EXPECT_EQ(info->train.documents, 2U);
}

TEST_F(Prepare, EmptyFilesAreNotDocuments) {
  text("in/a.txt", "");
  text("in/b.txt", "b");
  text("in/c.txt", "\n\n");
  text("in/d.txt", "d");
  const auto info = run({.inputs = {(folder_ / "in").string()}, .valid_share = 0.0});
  EXPECT_EQ(text_in(out_ / "train.tokens"), "b|d|");
  EXPECT_EQ(info->files, 4U);
}

TEST_F(Prepare, AnEmptyCorpusIsAnError) {
  EXPECT_THAT(error_of({.inputs = {text("a.txt", " \n")}}),
              HasSubstr("there is no text in the input (1 file, nothing but white space)"));
  EXPECT_FALSE(fs::exists(out_));
  EXPECT_EQ(folder_.entry_count(), 1U);
}

TEST_F(Prepare, WrongOptionsAreUsageErrors) {
  const std::string input = text("a.txt", "a");
  for (const PrepareOptions& options :
       {PrepareOptions{}, PrepareOptions{.inputs = {input}, .valid_share = 0.6},
        PrepareOptions{.inputs = {input}, .valid_share = -0.1},
        PrepareOptions{.inputs = {input}, .documents = ""},
        PrepareOptions{.inputs = {input}, .threads = -1},
        PrepareOptions{.inputs = {input}, .threads = 1025}}) {
    const auto info = run(options);
    ASSERT_FALSE(info.ok());
    EXPECT_EQ(info.error().kind, ErrorKind::kUsage) << info.error().message;
  }
}

TEST_F(Prepare, ReplacesADataFolder) {
  ASSERT_TRUE(
      run({.inputs = {text("a.txt", "a\nb")}, .documents = "line", .valid_share = 0.5}).ok());
  EXPECT_TRUE(fs::exists(out_ / "valid.tokens"));
  ASSERT_TRUE(run({.inputs = {text("b.txt", "new")}}).ok());
  EXPECT_EQ(text_in(out_ / "train.tokens"), "new|");
  EXPECT_FALSE(fs::exists(out_ / "valid.tokens"));
  EXPECT_THAT(names_in(folder_.path()), UnorderedElementsAre("a.txt", "b.txt", "out"));
}

TEST_F(Prepare, AFailureKeepsTheOldFolder) {
  ASSERT_TRUE(run({.inputs = {text("a.txt", "old")}}).ok());
  EXPECT_THAT(error_of({.inputs = {(folder_ / "missing.txt").string()}}),
              HasSubstr("No such file"));
  EXPECT_THAT(error_of({.inputs = {text("b.zst", "not zstd")}}), HasSubstr("b.zst"));
  EXPECT_EQ(text_in(out_ / "train.tokens"), "old|");
  EXPECT_THAT(names_in(folder_.path()), UnorderedElementsAre("a.txt", "b.zst", "out"));
}

TEST_F(Prepare, AForeignFolderIsLeftAlone) {
  text("out/precious.txt", "mine");
  EXPECT_THAT(error_of({.inputs = {text("a.txt", "a")}}),
              HasSubstr("contains other files and is left as it is"));
  EXPECT_THAT(names_in(out_), ElementsAre("precious.txt"));
  out_ = folder_ / "a.txt";
  EXPECT_THAT(error_of({.inputs = {text("b.txt", "b")}}), HasSubstr("is a file; name a folder"));
}

TEST_F(Prepare, AnEmptyFolderIsUsed) {
  fs::create_directory(out_);
  ASSERT_TRUE(run({.inputs = {text("a.txt", "a")}}).ok());
  EXPECT_EQ(text_in(out_ / "train.tokens"), "a|");
}

TEST_F(Prepare, AnUnwritableFolderIsAnError) {
  const std::string file = text("a.txt", "a");
  out_ = Path(file) / "below" / "out";  // a file where a folder is needed
  EXPECT_THAT(error_of({.inputs = {file}}), HasSubstr("cannot create the folder"));
  EXPECT_EQ(folder_.entry_count(), 1U);
}

TEST_F(Prepare, AFullDiskIsAnErrorAndLeavesNothing) {
  const std::string input = text("a.txt", std::string(3'000'000, 'x') + " y");
  {
    const FileSizeLimit limit(1'000'000);
    EXPECT_THAT(error_of({.inputs = {input}}), HasSubstr("cannot write"));
  }
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("a.txt"));
}

TEST_F(Prepare, StopsWhenAskedAndLeavesNothing) {
  const std::string input = text("a.txt", std::string(3'000'000, 'x'));
  uint64_t last = 0;
  const auto info =
      prepare({.inputs = {input}}, tokenizer_, out_, [&](uint64_t done, uint64_t total) {
        EXPECT_EQ(total, 3'000'000U);
        last = done;
        return done < 1'000'000;
      });
  ASSERT_FALSE(info.ok());
  EXPECT_THAT(info.error().message, HasSubstr("stopped before the end; nothing was written"));
  EXPECT_LT(last, 2'000'000U);
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("a.txt"));
}

TEST_F(Prepare, RemovesWhatAKilledRunLeft) {
  const std::string input = text("a.txt", "a");
  text("out.preparing-1-0/.lock", "");
  text("out.preparing-1-0/train.tokens.tmp-1", "half");
  text("out.preparing-2-0/.lock", "");  // another process is working here
  const int busy = ::open((folder_ / "out.preparing-2-0/.lock").c_str(), O_RDWR);
  ASSERT_EQ(::flock(busy, LOCK_EX), 0);
  ASSERT_TRUE(run({.inputs = {input}}).ok());
  EXPECT_THAT(names_in(folder_.path()), UnorderedElementsAre("a.txt", "out", "out.preparing-2-0"));
  ::close(busy);
}

TEST_F(Prepare, TheFingerprintDependsOnInputsTokenizerAndRules) {
  const std::string input = text("a.txt", "a");
  const PrepareOptions options{.inputs = {input}};
  const std::string before = *prepare_fingerprint(options, tokenizer_);
  EXPECT_EQ(run(options)->fingerprint, before);
  PrepareOptions other = options;
  other.valid_share = 0.1;
  EXPECT_NE(*prepare_fingerprint(other, tokenizer_), before);
  FakeTokenizer shifted;
  shifted.offset = 1;
  EXPECT_NE(*prepare_fingerprint(options, shifted), before);
  text("a.txt", "longer");
  EXPECT_NE(*prepare_fingerprint(options, tokenizer_), before);
}

std::string long_text() {
  std::string lines;
  for (int i = 0; i < 5'000; ++i) lines += "line " + std::to_string(i) + "\n";
  return lines;
}

TEST_F(Prepare, ASingleTextGivesItsTailForValidation) {
  const std::string lines = long_text();
  const auto info = run({.inputs = {text("a.txt", lines)}});
  ASSERT_TRUE(info.ok()) << info.error().message;
  ASSERT_TRUE(info->valid.has_value());
  EXPECT_TRUE(info->valid_is_tail);
  EXPECT_TRUE(read_data_info(out_)->valid_is_tail);
  const std::string train = text_in(out_ / "train.tokens");
  const std::string valid = text_in(out_ / "valid.tokens");
  EXPECT_EQ(train.substr(0, train.size() - 1) + valid, lines + "|");
  EXPECT_EQ(info->valid->text_bytes, valid.size() - 1);
  EXPECT_NEAR(static_cast<double>(valid.size()), 0.05 * static_cast<double>(lines.size()), 20);
  const auto whole = run({.inputs = {text("a.txt", lines)}, .valid_share = 0.0});
  EXPECT_FALSE(whole->valid.has_value());
  EXPECT_EQ(text_in(out_ / "train.tokens"), lines + "|");
}

TEST_F(Prepare, JsonLinesAreDocuments) {
  std::string content = "{\"text\": \"a\\nb\", \"id\": 1}\n{oops\n{\"text\": \"c\"}\n";
  const auto info = run({.inputs = {text("a.jsonl", content)}, .valid_share = 0.0});
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(text_in(out_ / "train.tokens"), "a\nb|c|");
  ASSERT_EQ(info->notes.size(), 1U);
  EXPECT_THAT(info->notes[0],
              HasSubstr("skipped 1 line of JSONL without text in the field 'text'"));
  EXPECT_THAT(info->notes[0], HasSubstr("a.jsonl line 2 (the first is not JSON)"));
  EXPECT_EQ(read_data_info(out_)->notes, info->notes);
#ifdef LEEWAY_ZLIB
  ASSERT_TRUE(run({.inputs = {text("b.jsonl.gz", gzip(content))}, .valid_share = 0.0}).ok());
  EXPECT_EQ(text_in(out_ / "train.tokens"), "a\nb|c|");
#endif
  ASSERT_TRUE(run({.inputs = {text("c.json", content)}, .valid_share = 0.0}).ok());
  EXPECT_EQ(text_in(out_ / "train.tokens"), "a\nb|c|");
}

TEST_F(Prepare, TheFieldOfJsonLinesHasToBeThere) {
  const std::string input = text("a.jsonl", "{\"body\": \"x\", \"id\": 3}\n");
  EXPECT_THAT(error_of({.inputs = {input}}),
              HasSubstr("a.jsonl has no line with text in the field 'text': line 1 has the fields "
                        "body, id; name the field"));
  ASSERT_TRUE(run({.inputs = {input}, .field = "body"}).ok());
  EXPECT_EQ(text_in(out_ / "train.tokens"), "x|");
}

TEST_F(Prepare, WhatIsNotTextIsRefusedIfNamedAndSkippedIfFound) {
  text("in/a.txt", "text");
  const std::string image = text("in/b.png", "\x89PNG\r\n\x1A\n");
  const std::string table = text("in/c.csv", "1,2\n");
  text("in/d.png", "\x89PNG\r\n\x1A\n");
  EXPECT_THAT(error_of({.inputs = {image}}), HasSubstr("b.png is a PNG image, not text"));
  EXPECT_THAT(error_of({.inputs = {table}}), HasSubstr("c.csv is a CSV table, not text; convert"));
  const auto info = run({.inputs = {(folder_ / "in").string()}});
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(text_in(out_ / "train.tokens"), "text|");
  EXPECT_EQ(info->files, 1U);
  EXPECT_THAT(
      info->notes,
      ElementsAre(HasSubstr("skipped 3 files that are not text: 1 CSV table, 2 PNG images")));
  EXPECT_THAT(error_of({.inputs = {(folder_ / "in/*.png").string()}}),
              HasSubstr("there is no text in the input (2 files, skipped 2 files"));
}

TEST_F(Prepare, AZeroByteIsFoundWhereverItIs) {
  std::string late(600'000, 'x');
  late[500'000] = '\0';
  EXPECT_THAT(error_of({.inputs = {text("a.txt", late)}}),
              HasSubstr("a.txt is a binary file, not text (byte 500000 is zero)"));
}

TEST(DataFolder, ADamagedDescriptionIsAnError) {
  const TemporaryFolder folder;
  EXPECT_FALSE(is_data_folder(folder.path()));
  EXPECT_THAT(read_data_info(folder.path()).error().message,
              HasSubstr("is not a folder made by `leeway data prepare`"));
  for (const char* content :
       {"", "{", "[]", R"({"format": "other"})", R"({"format": "leeway-data", "version": 9})",
        R"({"format": "leeway-data", "version": 1, "train": {"tokens": "many"}})"}) {
    write_data(folder / "data.json", content);
    const auto info = read_data_info(folder.path());
    ASSERT_FALSE(info.ok()) << content;
    EXPECT_THAT(info.error().message, HasSubstr("prepare it again"));
    EXPECT_THAT(info.error().message, testing::Not(HasSubstr("exception")));
  }
}

}  // namespace
}  // namespace leeway
