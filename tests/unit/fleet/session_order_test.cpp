#include "fleet/session_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"

namespace leeway {
namespace {

using testing::HasSubstr;

SessionOrder whole_order() {
  const ReplicaStart first = {.update = 10, .rounds = {{1, 2}, {3, 4}}, .chunks = {{}, {}}};
  ReplicaStart second = {.update = 12, .rounds = {{5}, {}}};
  second.chunks = {{{.values = 6,
                     .answer = 3,
                     .chain = ~uint64_t{0},
                     .counted = {{.replica = {0}, .newest = 2, .before = 3}}}},
                   {}};
  const std::vector<Place> places = {{.worker = {.replica = {1}, .stage = {0}}, .incarnation = 2}};
  return {.number = 3,
          .logged = 2,
          .seconds = 12.25,
          .shift = 1,
          .evaluates_first = true,
          .has_state = true,
          .first_update = 12,
          .last_update = 40,
          .run = ~uint64_t{0},
          .recipe = (uint64_t{1} << 63) + 1,
          .timeline = (uint64_t{1} << 62) + 3,
          .starts = {first, second},
          .places = places,
          .directory = {.number = 9, .members = {{.id = {5}, .name = "a", .places = places}}}};
}

std::string error_of(const Note& note) {
  const Result<SessionOrder> order = session_order_from(note);
  return order.ok() ? "no error" : order.error().message;
}

TEST(SessionOrder, ComesBackAsItWas) {
  const SessionOrder order = whole_order();
  const Result<Note> note = note_from(to_bytes(to_note(order)));
  ASSERT_TRUE(note.ok()) << note.error().message;
  EXPECT_EQ(note->kind(), NoteKind::kSession);
  const Result<SessionOrder> back = session_order_from(*note);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->number, 3);
  EXPECT_EQ(back->logged, 2);
  EXPECT_EQ(back->seconds, 12.25);
  EXPECT_EQ(back->shift, 1);
  EXPECT_TRUE(back->evaluates_first && back->has_state);
  EXPECT_EQ(back->first_update, 12);
  EXPECT_EQ(back->last_update, 40);
  EXPECT_EQ(back->run, order.run) << "all 64 bits";
  EXPECT_EQ(back->recipe, order.recipe);
  EXPECT_EQ(back->places, order.places);
  EXPECT_EQ(to_json(back->directory), to_json(order.directory));
  ASSERT_EQ(back->starts.size(), 2U);
  for (size_t at = 0; at < 2; ++at) {
    EXPECT_EQ(back->starts[at].update, order.starts[at].update);
    EXPECT_EQ(back->starts[at].rounds, order.starts[at].rounds);
    EXPECT_EQ(back->starts[at].chunks, order.starts[at].chunks);
  }
}

TEST(SessionOrder, EveryFactIsNeededAndOfItsType) {
  const Note whole = to_note(whole_order());
  ASSERT_EQ(whole.facts().size(), 13U);
  for (const auto& [name, value] : whole.facts().items()) {
    Note missing = whole;
    missing.facts().erase(name);
    EXPECT_NE(error_of(missing), "no error") << name;
    for (const nlohmann::json& wrong : {nlohmann::json(nullptr), nlohmann::json("7"),
                                        nlohmann::json::array(), nlohmann::json::object()}) {
      Note other = whole;
      other.facts()[name] = wrong;
      EXPECT_NE(error_of(other), "no error") << name << " " << wrong;
    }
  }
}

TEST(SessionOrder, IsForOneProcess) {
  Note note = to_note(whole_order());
  note.facts()["own"]["members"] = nlohmann::json::array();
  EXPECT_THAT(error_of(note), HasSubstr("damaged"));
  note.facts()["own"] = note.facts()["directory"];
  note.facts()["own"]["members"].push_back(note.facts()["own"]["members"][0]);
  EXPECT_THAT(error_of(note), HasSubstr("damaged"));
}

TEST(SessionOrder, ABodyThatIsCutOrTooLongIsAnError) {
  const Note whole = to_note(whole_order());
  for (size_t length = 0; length < whole.body().size(); ++length) {
    Note cut = whole;
    cut.body().resize(length);
    EXPECT_NE(error_of(cut), "no error") << length;
  }
  Note longer = whole;
  longer.body().push_back(std::byte{0});
  EXPECT_NE(error_of(longer), "no error");
}

TEST(SessionOrder, ACountThatCannotBeIsAnError) {
  for (const uint64_t count : {uint64_t{1} << 20, (uint64_t{1} << 20) + 1, ~uint64_t{0}}) {
    Note note = to_note(whole_order());
    ByteWriter alone;
    alone.put(count);
    note.body() = alone.take();
    EXPECT_NE(error_of(note), "no error") << count << " starts";
    ByteWriter rounds;
    rounds.put(size_t{1});
    rounds.put(int64_t{0});
    rounds.put(count);
    rounds.put(size_t{0});
    note.body() = rounds.take();
    EXPECT_NE(error_of(note), "no error") << count << " stages";
    ByteWriter lanes;
    lanes.put(size_t{1});
    lanes.put(int64_t{0});
    lanes.put(size_t{1});
    lanes.put(count);
    lanes.put(size_t{0});
    note.body() = lanes.take();
    EXPECT_NE(error_of(note), "no error") << count << " lanes";
  }
}

// A million lists of a million numbers each, which are not there.
TEST(SessionOrder, TakesNoMemoryForWhatItOnlySaysItHas) {
  ByteWriter writer;
  writer.put(size_t{1});
  writer.put(int64_t{5});
  writer.put(size_t{1} << 20);
  for (int list = 0; list < 10'000; ++list) writer.put(size_t{1} << 20);
  Note note = to_note({.number = 2, .directory = {.number = 4, .members = {{.id = {3}}}}});
  note.body() = writer.take();
  const Result<SessionOrder> order = session_order_from(note);
  ASSERT_FALSE(order.ok());
  EXPECT_EQ(order.error().message, "an order to begin a session is damaged");
}

}  // namespace
}  // namespace leeway
