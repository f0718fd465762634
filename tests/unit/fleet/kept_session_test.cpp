#include "fleet/kept_session.h"

#include <gtest/gtest.h>

#include <fstream>

#include "../../support/temporary_folder.h"
#include "fleet/places.h"

namespace leeway {
namespace {

constexpr Place kFirst = {.worker = {.replica = {0}, .stage = {0}}, .incarnation = 2};
constexpr Place kSecond = {.worker = {.replica = {1}, .stage = {0}}};

KeptSession sample() {
  KeptSession kept;
  kept.order = {.number = 4,
                .logged = 2,
                .seconds = 10.5,
                .first_update = 3,
                .last_update = 90,
                .run = ~uint64_t{0},
                .recipe = 12,
                .starts = {{.update = 3, .rounds = {{1}}, .chunks = {{}}}},
                .directory = {.number = 7,
                              .members = {{.id = {5}, .name = "a", .places = {kFirst}},
                                          {.id = {6}, .name = "b", .places = {kSecond}}}}};
  kept.began = 1.75e9;
  kept.times = {3, 1};
  kept.trained = {{{5}, "a"}, {{6}, "b"}, {{4}, "gone"}};
  kept.before.update = 3;
  kept.before.recent_losses = {2.5, 2.25};
  kept.before.data_hash = ~uint64_t{1};
  kept.before.bytes_averaging = 99;
  kept.address = "tcp://127.0.0.1:7070";
  return kept;
}

TEST(KeptSession, ComesBackAsItWas) {
  const TemporaryFolder folder;
  ASSERT_TRUE(keep_session(folder.path(), sample()).ok());
  const std::optional<KeptSession> back = kept_session(folder.path());
  ASSERT_TRUE(back);
  const KeptSession kept = sample();
  EXPECT_EQ(back->order.number, 4);
  EXPECT_EQ(back->order.run, kept.order.run);
  EXPECT_EQ(to_json(back->order.directory), to_json(kept.order.directory));
  EXPECT_EQ(back->order.starts.size(), 1U);
  EXPECT_EQ(back->began, kept.began);
  EXPECT_EQ(back->times, kept.times);
  EXPECT_EQ(back->trained, kept.trained);
  EXPECT_EQ(back->before.recent_losses, kept.before.recent_losses);
  EXPECT_EQ(back->before.data_hash, kept.before.data_hash);
  EXPECT_EQ(back->before.bytes_averaging, 99);
  EXPECT_EQ(back->address, kept.address);
  drop_kept_session(folder.path());
  EXPECT_FALSE(kept_session(folder.path()));
}

// A run goes on from a checkpoint then: what is damaged is as good as nothing.
TEST(KeptSession, IsNoneIfItIsDamaged) {
  const TemporaryFolder folder;
  ASSERT_TRUE(keep_session(folder.path(), sample()).ok());
  const Path file = folder / "fleet.session";
  const std::string whole = *read_text(file);
  const auto write = [&](const std::string& text) { std::ofstream(file) << text; };  // no fsync
  for (size_t size = 0; size < whole.size(); size += 7) {
    write(whole.substr(0, size));
    EXPECT_FALSE(kept_session(folder.path())) << size;
  }
  for (const char* name : {"\"began\"", "\"times\"", "\"trained\"", "\"before\"", "\"address\""}) {
    std::string without = whole;
    without.replace(without.find(name) + 1, 1, "X");
    write(without);
    EXPECT_FALSE(kept_session(folder.path())) << name;
  }
}

TEST(KeptSession, GivesPlacesBackToThoseWhoHadThem) {
  Places places({.stages = 1, .replicas = 2});
  const KeptSession kept = sample();
  places.restore(kept.order.directory, kept.times);
  EXPECT_EQ(places.empty(), 0);
  EXPECT_GT(places.directory().number, 7);
  const int64_t number = places.directory().number;
  EXPECT_TRUE(places.is_ready({5}));
  const std::vector<Place> left = places.leave({5});
  EXPECT_EQ(left, std::vector<Place>{kFirst});
  EXPECT_EQ(places.directory().number, number + 1);
  places.join({.id = {9}}, 1);
  places.set_ready({9});
  const std::vector<Place> filled = places.fill({9});
  ASSERT_EQ(filled.size(), 1U);
  EXPECT_EQ(filled.front().incarnation, 3) << "one more than the last that had it";
}

}  // namespace
}  // namespace leeway
