#include "fleet/note.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/bytes.h"

namespace leeway {
namespace {

using testing::HasSubstr;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> written(int64_t kind, uint64_t size, std::string_view facts) {
  ByteWriter writer;
  writer.put(kind);
  writer.put(size);
  writer.put_bytes(std::as_bytes(std::span(facts)));
  return writer.take();
}

std::string error_of(const std::vector<std::byte>& bytes) {
  const Result<Note> note = note_from(bytes);
  return note.ok() ? "no error" : note.error().message;
}

TEST(Note, ComesBackAsItWas) {
  for (int kind = 0; kind < kNoteKinds; ++kind) {
    Note note(static_cast<NoteKind>(kind));
    note.add("name", "Zürich \"7\"\n").add("number", int64_t{-5});
    note.body() = bytes_of("\0\xff and more");
    const Result<Note> back = note_from(to_bytes(note));
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(back->kind(), note.kind());
    EXPECT_EQ(back->facts(), note.facts());
    EXPECT_EQ(back->body(), note.body());
  }
  const Result<Note> empty = note_from(to_bytes(Note(NoteKind::kGoes)));
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE(empty->facts().empty());
  EXPECT_TRUE(empty->body().empty());
}

TEST(Note, TextThatIsNotUtf8Travels) {
  Note note(NoteKind::kJoin);
  note.add("name", "caf\xe9");
  const Result<Note> back = note_from(to_bytes(note));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_THAT(*back->text("name"), HasSubstr("caf"));
}

TEST(Note, AFactThatIsMissingOrOfAnotherTypeIsAnError) {
  Note note(NoteKind::kJoin);
  note.add("text", "7").add("half", 0.5).add("list", nlohmann::json::array({1}));
  note.facts()["null"] = nullptr;
  for (const char* name : {"absent", "text", "half", "list", "null"}) {
    const Result<int64_t> number = note.whole(name);
    ASSERT_FALSE(number.ok()) << name;
    EXPECT_THAT(number.error().message, HasSubstr(name));
  }
  for (const char* name : {"absent", "half", "list", "null"}) {
    const Result<std::string> text = note.text(name);
    ASSERT_FALSE(text.ok()) << name;
    EXPECT_THAT(text.error().message, HasSubstr(name));
  }
}

TEST(Note, ANumberThatDoesNotFitIsAnError) {
  Note note(NoteKind::kJoin);
  note.add("largest", std::numeric_limits<int64_t>::max())
      .add("too_large", uint64_t{1} << 63)
      .add("smallest", std::numeric_limits<int64_t>::min());
  EXPECT_EQ(*note.whole("largest"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(*note.whole("smallest"), std::numeric_limits<int64_t>::min());
  EXPECT_FALSE(note.whole("too_large").ok());
}

TEST(Note, DamageIsAnError) {
  EXPECT_THAT(error_of({}), HasSubstr("shorter"));
  EXPECT_THAT(error_of(written(-1, 2, "{}")), HasSubstr("unknown kind"));
  EXPECT_THAT(error_of(written(kNoteKinds, 2, "{}")), HasSubstr("unknown kind"));
  EXPECT_THAT(error_of(written(0, 3, "{}")), HasSubstr("shorter"));
  EXPECT_THAT(error_of(written(0, ~uint64_t{0}, "{}")), HasSubstr("too long"));
  for (const char* facts : {"", "[]", "7", "null", "{", "{\"a\":}", "{}{}", "{\"a\":\"\xff\"}"}) {
    EXPECT_THAT(error_of(written(0, std::strlen(facts), facts)), HasSubstr("not JSON")) << facts;
  }
  EXPECT_EQ(error_of(written(0, 2, "{}")), "no error");
}

// What is nested deeply could not even be copied: each level takes some of the stack.
TEST(Note, NestingHasABottom) {
  const auto nested = [](size_t levels) {
    return "{\"a\":" + std::string(levels, '[') + std::string(levels, ']') + "}";
  };
  const std::string deep = nested(1'000'000);
  EXPECT_THAT(error_of(written(0, deep.size(), deep)), HasSubstr("nested too deeply"));
  EXPECT_EQ(error_of(written(0, nested(15).size(), nested(15))), "no error");
  EXPECT_NE(error_of(written(0, nested(16).size(), nested(16))), "no error");
  const std::string text = "{\"a\":\"" + std::string(100, '[') + "\\\"[\"}";
  EXPECT_EQ(error_of(written(0, text.size(), text)), "no error") << "brackets in a text are none";
}

}  // namespace
}  // namespace leeway
