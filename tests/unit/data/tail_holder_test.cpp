#include "data/tail_holder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../support/fake_tokenizer.h"

namespace leeway {
namespace {

using testing::ElementsAre;

class Tail : public testing::Test {
 protected:
  // Documents through the holder, in steps of `step` bytes.
  bool run(const std::vector<std::string>& documents, double share, size_t step = 1 << 20) {
    train_.clear();
    valid_.clear();
    const ValidationSplit split = {.share = share};
    PieceBuilder builder(tokenizer_, split, [this](TextPiece piece) {
      std::string_view rest = piece.text;
      for (const Segment& segment : piece.segments) {
        std::string& part = segment.valid ? valid_ : train_;
        part += rest.substr(0, segment.bytes);
        rest.remove_prefix(segment.bytes);
        if (segment.ends) part += '|';
      }
    });
    TailHolder tail(split, builder);
    for (const std::string& document : documents) {
      for (size_t at = 0; at < document.size(); at += step) {
        tail.add_text(std::string_view(document).substr(at, step));
      }
      tail.end_document();
    }
    const bool held = tail.finish();
    builder.finish();
    return held;
  }
  static std::string lines(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += "line " + std::to_string(i) + "\n";
    return text;
  }

  FakeTokenizer tokenizer_;
  std::string train_;
  std::string valid_;
};

TEST_F(Tail, ASingleDocumentGivesItsLastLines) {
  const std::string text = lines(10'000);
  ASSERT_TRUE(run({text}, 0.05));
  EXPECT_EQ(train_.back(), '|');
  EXPECT_EQ(valid_.substr(0, 5), "line ");
  EXPECT_EQ(train_.substr(0, train_.size() - 1) + valid_, text + "|");
  EXPECT_NEAR(static_cast<double>(valid_.size()), 0.05 * static_cast<double>(text.size()), 20);
}

TEST_F(Tail, HowTheTextArrivesDoesNotMatter) {
  const std::string text = lines(200'000);  // more than is held at once
  ASSERT_TRUE(run({text}, 0.1));
  const std::string train = train_;
  const std::string valid = valid_;
  for (const size_t step : {1'000U, 65'537U}) {
    ASSERT_TRUE(run({text}, 0.1, step));
    EXPECT_TRUE(train_ == train && valid_ == valid) << step;
  }
}

TEST_F(Tail, ADocumentThatIsHeldOutLeavesTheTailAlone) {
  const std::string text = lines(1'000);
  ASSERT_FALSE(run({text, "b", "c", "d"}, 0.5));
  EXPECT_EQ(train_.size() + valid_.size(), text.size() + 7);
  EXPECT_EQ(valid_.find("line"), std::string::npos);
  EXPECT_GE(valid_.size(), 2U);
}

TEST_F(Tail, AFewDocumentsAreCutBetweenThem) {
  const std::string first(30'000, 'a');
  const std::string second(1'400, 'b');
  ASSERT_TRUE(run({first, second}, 0.05));  // no document is drawn among so few
  EXPECT_EQ(train_, first + "|");
  EXPECT_EQ(valid_, second + "|");
}

TEST_F(Tail, NoTailOfAShortTextOrWithoutAShare) {
  ASSERT_FALSE(run({lines(1'000)}, 0.05));
  EXPECT_EQ(valid_, "");
  EXPECT_EQ(train_, lines(1'000) + "|");
  ASSERT_FALSE(run({lines(100'000)}, 0.0));
  EXPECT_EQ(valid_, "");
}

TEST_F(Tail, IsBoundedAndCutsNoCharacter) {
  std::string text;
  for (int i = 0; i < 3'000'000; ++i) text += "\xCE\xB1";
  ASSERT_TRUE(run({text}, 0.5));
  EXPECT_EQ(valid_.size(), 3'000'000U + 1);
  text += text + text + text;
  ASSERT_TRUE(run({"x" + text}, 0.5));
  EXPECT_EQ(valid_.size(), TailHolder::kTailBytesMax + 1);
  EXPECT_EQ(valid_[0], '\xCE');
}

}  // namespace
}  // namespace leeway
