#include "data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "../../support/data_files.h"
#include "../../support/fake_tokenizer.h"
#include "../../support/temporary_folder.h"
#include "base/file_turn.h"
#include "data/data_folder.h"

namespace leeway {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DatasetFixture : public testing::Test {
 protected:
  Result<Dataset> open(const DataSpec& spec) {
    reports_ = 0;
    return open_dataset(spec, cache_, [this](uint64_t, uint64_t) {
      ++reports_;
      return true;
    });
  }
  std::string error_of(const DataSpec& spec) {
    const auto data = open(spec);
    EXPECT_FALSE(data.ok());
    return data.ok() ? "" : data.error().message;
  }
  // A folder as `data prepare` makes it.
  std::string prepared(const std::string& name, std::string_view content, double share = 0.0) {
    const auto tokenizer = load_tokenizer("bytes");
    const PrepareOptions options{.inputs = {write_data(folder_ / (name + ".txt"), content)},
                                 .documents = "line",
                                 .valid_share = share};
    EXPECT_TRUE(prepare(options, **tokenizer, folder_ / name, {}).ok());
    return (folder_ / name).string();
  }

  // Keeps the size and keeps the id in the vocabulary: only the hash shows the change.
  static void change_first_id(const Path& path) {
    std::string bytes = *read_text(path);
    bytes[64] = static_cast<char>(bytes[64] ^ 1);
    write_data(path, bytes);
  }

  TemporaryFolder folder_;
  Path cache_ = folder_ / "cache";
  int reports_ = 0;
};

using DatasetTest = DatasetFixture;

TEST_F(DatasetTest, OpensAPreparedFolder) {
  const std::string name = prepared("data", "a\nb\n", 0.5);
  const auto data = open({.train = {name}});
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->train.path(), Path(name) / "train.tokens");
  EXPECT_EQ(data->train.info().count, 2U);
  ASSERT_TRUE(data->valid.has_value());
  EXPECT_EQ(data->valid->info().count, 2U);
  ASSERT_NE(data->tokenizer, nullptr);
  EXPECT_EQ(data->tokenizer->kind(), "bytes");
  EXPECT_EQ(data->vocabulary, 257);
  EXPECT_EQ(reports_, 0);
}

TEST_F(DatasetTest, SeparateValidationData) {
  const std::string train = prepared("train", "abc\ndef\n", 0.5);
  const std::string both = prepared("both", "1\n22\n", 0.5);
  const std::string whole = prepared("whole", "333\n");
  EXPECT_EQ(open({.train = {train}, .valid = {both}})->valid->path(), Path(both) / "valid.tokens");
  EXPECT_EQ(open({.train = {train}, .valid = {whole}})->valid->path(),
            Path(whole) / "train.tokens");
  const std::string file = whole + "/train.tokens";
  EXPECT_EQ(open({.train = {train}, .valid = {file}})->valid->path(), Path(file));
  const std::string text = write_data(folder_ / "v.txt", "text");
  const auto data = open({.train = {train}, .valid = {text}});
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(text_in(data->valid->path()), "text|");
}

TEST_F(DatasetTest, TextIsPreparedOnce) {
  const std::string text = write_data(folder_ / "a.txt", "some text");
  const DataSpec spec{.train = {text}};
  const auto first = open(spec);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(text_in(first->train.path()), "some text|");
  EXPECT_FALSE(first->valid.has_value());
  EXPECT_GT(reports_, 0);
  ASSERT_TRUE(open(spec).ok());
  EXPECT_EQ(reports_, 0);  // it was already prepared
  write_data(folder_ / "a.txt", "some other text");
  const auto changed = open(spec);
  EXPECT_GT(reports_, 0);
  EXPECT_EQ(text_in(changed->train.path()), "some other text|");
}

// As the processes of a run do.
TEST_F(DatasetTest, ManyAtOncePrepareATextOnce) {
  constexpr int kReaders = 8;
  constexpr int kRounds = 5;
  const std::string text = write_data(folder_ / "a.txt", "some text");
  for (int round = 0; round < kRounds; ++round) {
    const Path cache = folder_ / ("cache" + std::to_string(round));
    std::vector<std::string> errors(kReaders);
    std::vector<std::thread> readers;
    for (std::string& error : errors) {
      readers.emplace_back([&] {
        const auto data =
            open_dataset({.train = {text}}, cache, [](uint64_t, uint64_t) { return true; });
        if (!data.ok()) error = data.error().message;
      });
    }
    for (std::thread& reader : readers) reader.join();
    EXPECT_THAT(errors, testing::Each(""));
    EXPECT_EQ(std::distance(fs::directory_iterator(cache), {}), 1) << "only what was prepared";
  }
}

TEST_F(DatasetTest, WaitingForAnotherReaderCanBeStopped) {
  const std::string text = write_data(folder_ / "a.txt", "some text");
  const DataSpec spec{.train = {text}};
  ASSERT_TRUE(open(spec).ok());
  const Path prepared = fs::directory_iterator(cache_)->path();
  fs::remove_all(prepared);
  const FileTurn others(prepared.string() + ".lock", [] { return true; });
  const auto data = open_dataset(spec, cache_, [](uint64_t, uint64_t) { return false; });
  ASSERT_FALSE(data.ok());
  EXPECT_EQ(data.error().kind, ErrorKind::kInterrupted);
}

TEST_F(DatasetTest, ASingleTextIsValidatedOnItsTail) {
  std::string lines;
  for (int i = 0; i < 5'000; ++i) lines += "line " + std::to_string(i) + "\n";
  DataSpec spec{.train = {write_data(folder_ / "a.txt", lines)}, .context = 64};
  const auto data = open(spec);
  ASSERT_TRUE(data.ok()) << data.error().message;
  ASSERT_TRUE(data->valid.has_value());
  const uint64_t train_hash = data->train.info().content_hash;
  const uint64_t valid_hash = data->valid->info().content_hash;
  ASSERT_EQ(data->notes.size(), 1U);
  EXPECT_THAT(data->notes[0], HasSubstr("validation data: the last 2."));
  const auto again = open(spec);  // from the cache: the same split, and the same note
  EXPECT_EQ(again->train.info().content_hash, train_hash);
  EXPECT_EQ(again->valid->info().content_hash, valid_hash);
  EXPECT_EQ(again->notes, data->notes);
  spec.context = 4096;  // Longer than the tail: no validation, but no error either.
  const auto longer = open(spec);
  ASSERT_TRUE(longer.ok()) << longer.error().message;
  EXPECT_FALSE(longer->valid.has_value());
  EXPECT_EQ(longer->train.info().content_hash, train_hash);
  EXPECT_THAT(longer->notes[0], HasSubstr("no validation"));
  spec.valid_share = 0.0;
  EXPECT_FALSE(open(spec)->valid.has_value());
  EXPECT_EQ(open(spec)->train.info().text_bytes, lines.size());
}

TEST_F(DatasetTest, ADamagedCacheIsMadeAgain) {
  const DataSpec spec{.train = {write_data(folder_ / "a.txt", "some text")}};
  const Path made = open(spec)->train.path();
  fs::resize_file(made, 70);
  const auto again = open(spec);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_GT(reports_, 0);
  EXPECT_EQ(text_in(again->train.path()), "some text|");
}

TEST_F(DatasetTest, ACacheWithChangedIdsIsMadeAgain) {
  const DataSpec spec{.train = {write_data(folder_ / "a.txt", "some text")}};
  change_first_id(open(spec)->train.path());
  const auto again = open(spec);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(text_in(again->train.path()), "some text|");
}

TEST_F(DatasetTest, ChangedIdsAreAnErrorWhereverTheyAreUsed) {
  const std::string intact = prepared("intact", "abc\ndef\n", 0.5);
  const std::string changed = prepared("changed", "abc\ndef\n", 0.5);
  change_first_id(Path(changed) / "valid.tokens");
  const auto says = HasSubstr("valid.tokens was changed after it was written");
  EXPECT_THAT(error_of({.train = {changed}}), says);
  EXPECT_THAT(error_of({.train = {intact}, .valid = {changed}}), says);
  EXPECT_THAT(error_of({.train = {intact}, .valid = {changed + "/valid.tokens"}}), says);
  const auto held_out = open_held_out(changed, nullptr, cache_, {});
  ASSERT_FALSE(held_out.ok());
  EXPECT_THAT(held_out.error().message, says);
  // Unused files are not read.
  EXPECT_TRUE(open({.train = {changed}, .valid = {intact}}).ok());
  change_first_id(Path(intact) / "train.tokens");
  EXPECT_THAT(error_of({.train = {intact}}), HasSubstr("train.tokens was changed"));
  EXPECT_TRUE(open_held_out(intact, nullptr, cache_, {}).ok());
}

TEST_F(DatasetTest, AReplacedForeignFileHasAnotherHash) {
  const Path path = folder_ / "train.bin";
  const auto hash_of = [&](std::string_view ids) {
    const DataSpec spec{.train = {write_data(path, ids)}};
    return open(spec)->train.info().content_hash;
  };
  const uint64_t hash = hash_of(std::string_view("\x05\0\x07\0", 4));
  EXPECT_NE(hash, 0U);
  EXPECT_NE(hash_of(std::string_view("\x05\0\x06\0", 4)), hash);
  const auto held_out = open_held_out(path.string(), nullptr, cache_, {});
  EXPECT_NE(held_out->tokens.info().content_hash, 0U);
}

TEST_F(DatasetTest, WhatWasLeftOutIsToldToEveryReader) {
  write_data(folder_ / "in/a.txt", "text");
  write_data(folder_ / "in/b.csv", "1,2");
  const std::string name = (folder_ / "in").string();
  const auto says = testing::Contains(HasSubstr("skipped 1 file that is not text: 1 CSV table"));
  EXPECT_THAT(open({.train = {name}})->notes, says);
  const auto tokenizer = load_tokenizer("bytes");
  EXPECT_THAT(open_held_out(name, tokenizer->get(), cache_, {})->notes, says);
}

TEST_F(DatasetTest, TextWithItsOwnValidationIsNotSplit) {
  std::string documents;
  for (int i = 0; i < 100; ++i) documents += std::to_string(i) + "<|endoftext|>";
  const std::string train = write_data(folder_ / "a.txt", documents);
  const std::string valid = write_data(folder_ / "v.txt", "v");
  EXPECT_EQ(open({.train = {train}})->train.info().documents, 95U);
  const auto data = open({.train = {train}, .valid = {valid}});
  EXPECT_EQ(data->train.info().documents, 100U);
  EXPECT_EQ(data->valid->info().documents, 1U);
}

TEST_F(DatasetTest, TextNamedLikeATokenFileIsText) {
  const auto data = open({.train = {write_data(folder_ / "wiki.train.tokens", " = A = \n")}});
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(text_in(data->train.path()), " = A = \n|");
}

TEST_F(DatasetTest, ForeignFilesHaveNoTokenizer) {
  const std::string train = write_data(folder_ / "train.bin", std::string("\x05\x00\x07\x00", 4));
  const std::string valid = write_data(folder_ / "val.bin", std::string("\x09\x00", 2));
  const auto data = open({.train = {train}, .valid = {valid}});
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->tokenizer, nullptr);
  EXPECT_EQ(data->vocabulary, 10);  // one more than the largest id of both
  const std::string text = write_data(folder_ / "v.txt", "v");
  EXPECT_THAT(error_of({.train = {train}, .valid = {text}}), HasSubstr("without a tokenizer"));
}

TEST_F(DatasetTest, ATokenizerNamedForAForeignFileIsUsed) {
  const std::string made = prepared("made", "x\n");
  const std::string spec = "saved:" + made + "/tokenizer";
  const std::string good = write_data(folder_ / "a.bin", std::string("\x41\x00", 2));
  const auto data = open({.train = {good}, .tokenizer = spec});
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->vocabulary, 257);
  ASSERT_NE(data->tokenizer, nullptr);
  const std::string bad = write_data(folder_ / "b.bin", std::string("\x41\x00\x41\x02", 4));
  EXPECT_THAT(error_of({.train = {bad}, .tokenizer = spec}),
              HasSubstr("has id 577 at position 1, outside the vocabulary of 257"));
}

TEST_F(DatasetTest, DifferentTokenizersAreAnError) {
  const std::string train = prepared("train", "a\n");
  FakeTokenizer other;
  auto writer = TokenFileWriter::create(folder_ / "other.tokens", other);
  ASSERT_TRUE(writer->append(std::vector<TokenId>{1}).ok());
  ASSERT_TRUE(writer->commit(1, 1).ok());
  EXPECT_THAT(error_of({.train = {train}, .valid = {(folder_ / "other.tokens").string()}}),
              HasSubstr("come from different tokenizers; prepare both with the same one"));
}

TEST_F(DatasetTest, AFolderWithAnotherTokenizerInItIsAnError) {
  const std::string train = prepared("train", "a\n");
  FakeTokenizer other;
  auto writer = TokenFileWriter::create(Path(train) / "train.tokens", other);
  ASSERT_TRUE(writer->commit(0, 0).ok());
  EXPECT_THAT(error_of({.train = {train}}), HasSubstr("is not the one that made"));
}

TEST_F(DatasetTest, WrongRecipesAreUsageErrors) {
  const std::string made = prepared("made", "x\n");
  const std::string text = write_data(folder_ / "a.txt", "a");
  for (const DataSpec& spec :
       {DataSpec{}, DataSpec{.train = {made, text}}, DataSpec{.train = {"-"}},
        DataSpec{.train = {made}, .valid = {text, made}}}) {
    const auto data = open(spec);
    ASSERT_FALSE(data.ok());
    EXPECT_EQ(data.error().kind, ErrorKind::kUsage) << data.error().message;
  }
}

TEST_F(DatasetTest, UnreadableDataIsAnError) {
  EXPECT_THAT(error_of({.train = {(folder_ / "missing").string()}}), HasSubstr("No such file"));
  EXPECT_THAT(error_of({.train = {(folder_ / "missing.bin").string()}}), HasSubstr("No such file"));
  const std::string made = prepared("made", "some words\n");
  fs::resize_file(Path(made) / "train.tokens", 70);
  EXPECT_THAT(error_of({.train = {made}}), HasSubstr("has only 3 of the 11 ids"));
}

TEST_F(DatasetTest, AShortCorpusSaysWhatIsThereAndWhatIsNeeded) {
  const auto open_bytes = [&](size_t count) {
    return TokenFile::open(
        write_data(folder_ / (std::to_string(count) + ".bin"), std::string(2 * count, '\0')));
  };
  EXPECT_TRUE(check_windows(*open_bytes(129), 128).ok());
  const Status status = check_windows(*open_bytes(100), 128);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message,
              HasSubstr("has 100 tokens, fewer than the 129 of one window (model.context 128 plus "
                        "one); add text, or set model.context to 99 or less"));
  EXPECT_THAT(check_windows(*open_bytes(1), 128).error().message, HasSubstr("one token"));
  EXPECT_THAT(check_windows(*open_bytes(0), 128).error().message, HasSubstr("no tokens"));
}

TEST_F(DatasetTest, AGlanceFindsWhatIsThereAndPreparesNothing) {
  const std::string text = write_data(folder_ / "a.txt", "some text");
  const auto of_text = glance_at_dataset({.train = {text}});
  ASSERT_TRUE(of_text.ok()) << of_text.error().message;
  EXPECT_EQ(of_text->vocabulary, 257);
  EXPECT_EQ(of_text->bytes, 9U);
  EXPECT_TRUE(of_text->small);
  EXPECT_FALSE(of_text->train);
  const auto of_tokens = glance_at_dataset({.train = {prepared("data", "a\nb\n", 0.5)}});
  ASSERT_TRUE(of_tokens.ok()) << of_tokens.error().message;
  EXPECT_TRUE(of_tokens->train && of_tokens->valid);
  EXPECT_EQ(of_tokens->vocabulary, 257);
  EXPECT_FALSE(fs::exists(cache_));
}

TEST_F(DatasetTest, AGlanceReadsNothingThatIsLargeOrGoesOnForEver) {
  const std::string text = write_data(folder_ / "a.txt", std::string(kGlanceBytes + 1, 'a'));
  const auto large = glance_at_dataset({.train = {text}});
  EXPECT_TRUE(large.ok() && !large->small && large->bytes == kGlanceBytes + 1);
  const auto endless = glance_at_dataset({.train = {"/dev/zero"}});
  EXPECT_TRUE(endless.ok() && !endless->small);
}

TEST_F(DatasetTest, AGlanceFindsWhatCannotBeOpened) {
  const std::string text = write_data(folder_ / "a.txt", "some text");
  const auto said = [](const DataSpec& spec) {
    const auto glance = glance_at_dataset(spec);
    return glance.ok() ? std::string("ok") : glance.error().message;
  };
  EXPECT_THAT(said({.train = {"no/such.txt"}}), HasSubstr("cannot read no/such.txt"));
  EXPECT_THAT(said({.train = {"no/such.bin"}}), HasSubstr("no/such.bin"));
  EXPECT_THAT(said({.train = {text}, .valid = {"no/such.txt"}}), HasSubstr("no/such.txt"));
  EXPECT_THAT(said({.train = {text}, .tokenizer = "hf:no/such.json"}), HasSubstr("no/such.json"));
  EXPECT_THAT(said({.train = {"-"}}), HasSubstr("cannot read standard input"));
  EXPECT_THAT(said({.train = {text, prepared("data", "a\n")}}), HasSubstr("the only entry"));
}

}  // namespace
}  // namespace leeway
