#include "data/pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../support/fake_tokenizer.h"

namespace leeway {
namespace {

using testing::ElementsAre;

class Pieces : public testing::Test {
 protected:
  PieceBuilder builder(double share = 0.0) {
    return PieceBuilder(tokenizer_, {.share = share},
                        [this](TextPiece piece) { pieces_.push_back(std::move(piece)); });
  }
  FakeTokenizer tokenizer_;
  std::vector<TextPiece> pieces_;
};

TEST_F(Pieces, ShortDocumentsShareAPiece) {
  PieceBuilder pieces = builder();
  for (const char* text : {"one", "two", "three"}) {
    pieces.add_text(text);
    pieces.end_document();
  }
  EXPECT_TRUE(pieces_.empty());
  pieces.finish();
  ASSERT_EQ(pieces_.size(), 1U);
  EXPECT_EQ(pieces_[0].text, "onetwothree");
  const EncodedPiece encoded = encode_piece(tokenizer_, pieces_[0]);
  EXPECT_THAT(encoded.train.ids,
              ElementsAre('o', 'n', 'e', 256, 't', 'w', 'o', 256, 't', 'h', 'r', 'e', 'e', 256));
  EXPECT_EQ(encoded.train.counts.tokens, 11U);
  EXPECT_EQ(encoded.train.counts.markers, 3U);
  EXPECT_EQ(encoded.train.counts.documents, 3U);
  EXPECT_EQ(encoded.train.counts.text_bytes, 11U);
}

TEST_F(Pieces, ALongDocumentIsCutWhereTheTokenizerAllows) {
  std::string text;
  while (text.size() < 5 * PieceBuilder::kPieceBytes) text += "a word ";
  PieceBuilder pieces = builder();
  pieces.add_text(text);
  pieces.end_document();
  pieces.finish();
  std::string joined;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    EXPECT_TRUE(pieces_[i].text.empty() || pieces_[i].text.back() == ' ');
    EXPECT_LE(pieces_[i].text.size(), PieceBuilder::kPieceBytes + 8);
    ASSERT_EQ(pieces_[i].segments.size(), 1U);
    EXPECT_EQ(pieces_[i].segments[0].ends, i + 1 == pieces_.size());
    joined += pieces_[i].text;
  }
  EXPECT_EQ(joined, text);
  EXPECT_GE(pieces_.size(), 5U);
}

TEST_F(Pieces, CutsDependOnlyOnTheText) {
  std::string text;
  while (text.size() < 3 * PieceBuilder::kPieceBytes) text += "a word ";
  PieceBuilder whole = builder();
  whole.add_text(text);
  whole.end_document();
  whole.finish();
  const std::vector<TextPiece> expected = std::exchange(pieces_, {});
  PieceBuilder torn = builder();
  for (size_t at = 0; at < text.size(); at += 977) torn.add_text(text.substr(at, 977));
  torn.end_document();
  torn.finish();
  ASSERT_EQ(pieces_.size(), expected.size());
  for (size_t i = 0; i < pieces_.size(); ++i) EXPECT_EQ(pieces_[i].text, expected[i].text);
}

// An endless word is cut between characters.
TEST_F(Pieces, WithoutASafeCutCharactersStayWhole) {
  tokenizer_.cuts = false;
  std::string text = "x";
  while (text.size() < 3 * PieceBuilder::kUncutBytesMax) text += "\xe2\x82\xac";  // the euro sign
  PieceBuilder pieces = builder();
  pieces.add_text(text);
  pieces.end_document();
  pieces.finish();
  std::string joined;
  for (const TextPiece& piece : pieces_) {
    EXPECT_LE(piece.text.size(), PieceBuilder::kUncutBytesMax + 3);  // plus a character left over
    EXPECT_TRUE(piece.text.empty() || piece.text[0] == 'x' || piece.text[0] == '\xe2');
    joined += piece.text;
  }
  EXPECT_EQ(joined, text);
  EXPECT_GE(pieces_.size(), 3U);
}

TEST_F(Pieces, WithoutASafeCutLinesAndWordsArePreferred) {
  tokenizer_.cuts = false;
  const std::string filler(PieceBuilder::kUncutBytesMax - 10, 'x');
  PieceBuilder pieces = builder();
  pieces.add_text(filler + "\n" + filler + " " + filler);
  pieces.end_document();
  pieces.finish();
  ASSERT_GE(pieces_.size(), 2U);
  EXPECT_EQ(pieces_[0].text, filler + "\n");
  EXPECT_EQ(pieces_[1].text, filler);
  EXPECT_EQ(pieces_[2].text[0], ' ');
}

TEST_F(Pieces, BytesThatAreNotCharactersAreCutAnywhere) {
  tokenizer_.cuts = false;
  PieceBuilder pieces = builder();
  pieces.add_text(std::string(PieceBuilder::kUncutBytesMax + 5, '\x80'));
  pieces.end_document();
  pieces.finish();
  ASSERT_EQ(pieces_.size(), 2U);
  EXPECT_EQ(pieces_[0].text.size(), PieceBuilder::kUncutBytesMax);
}

TEST_F(Pieces, TheMarkerFollowsADocumentThatEndsOnACut) {
  PieceBuilder pieces = builder();
  pieces.add_text(std::string(PieceBuilder::kPieceBytes - 1, 'x') + " ");
  pieces.end_document();
  pieces.finish();
  uint64_t markers = 0;
  for (const TextPiece& piece : pieces_)
    markers += encode_piece(tokenizer_, piece).train.counts.markers;
  EXPECT_EQ(pieces_.size(), 2U);
  EXPECT_EQ(markers, 1U);
}

TEST(ValidationSplit, SetsAsideTheGivenShare) {
  for (const double share : {0.05, 0.1, 0.3, 0.5}) {
    const ValidationSplit split{.share = share, .seed = 9};
    uint64_t held = 0;
    for (uint64_t document = 0; document < 10'000; ++document)
      held += split.holds(document) ? 1 : 0;
    EXPECT_NEAR(static_cast<double>(held), share * 10'000, 1.0) << share;
  }
}

TEST(ValidationSplit, TakesOneOfEveryRunAndNeverTheFirst) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const ValidationSplit split{.share = 0.05, .seed = seed};
    EXPECT_FALSE(split.holds(0));
    for (uint64_t run = 0; run < 5; ++run) {
      int held = 0;
      for (uint64_t i = 0; i < 20; ++i) held += split.holds(run * 20 + i) ? 1 : 0;
      EXPECT_EQ(held, 1);
    }
  }
}

TEST(ValidationSplit, AShareOfZeroSetsNothingAside) {
  for (uint64_t document = 0; document < 100; ++document) {
    EXPECT_FALSE(ValidationSplit{.share = 0.0}.holds(document));
  }
}

}  // namespace
}  // namespace leeway
