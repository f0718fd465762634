#include "fleet/places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Mesh kMesh = {.stages = 2, .replicas = 2};

void add(Places& places, int64_t id, int64_t capacity) {
  places.join({.id = {id}, .name = "process " + std::to_string(id)}, capacity);
  places.set_ready({id});
}

// A place as replica, stage and incarnation: "1.0#2".
std::vector<std::string> words(const std::vector<Place>& places) {
  std::vector<std::string> all;
  for (const Place& place : places) {
    all.push_back(std::to_string(place.worker.replica.value) + "." +
                  std::to_string(place.worker.stage.value) + "#" +
                  std::to_string(place.incarnation));
  }
  return all;
}

std::vector<std::string> places_of(const Places& places, int64_t id) {
  const Member* const member = places.find({id});
  return member == nullptr ? std::vector<std::string>{"unknown"} : words(member->places);
}

TEST(Places, AreHandedOutInTheOrderOfTheMeshAndOfComing) {
  Places places(kMesh);
  add(places, 30, 1);
  add(places, 10, 2);
  add(places, 20, 1);
  EXPECT_EQ(places.missing(), 0);
  EXPECT_EQ(places.empty(), 4);
  places.begin_session();
  EXPECT_EQ(places.empty(), 0);
  EXPECT_THAT(places_of(places, 30), ElementsAre("0.0#0"));
  EXPECT_THAT(places_of(places, 10), ElementsAre("0.1#0", "1.0#0"));
  EXPECT_THAT(places_of(places, 20), ElementsAre("1.1#0"));
  EXPECT_THAT(places.ready(), ElementsAre(ProcessId{30}, ProcessId{10}, ProcessId{20}));
}

TEST(Places, AreForThoseThatAreReady) {
  Places places(kMesh);
  places.join({.id = {1}, .name = "one"}, 4);
  EXPECT_TRUE(places.knows({1}));
  EXPECT_FALSE(places.is_ready({1}));
  EXPECT_EQ(places.missing(), 4);
  places.begin_session();
  EXPECT_EQ(places.empty(), 4);
  EXPECT_THAT(places.fill({1}), IsEmpty());
  EXPECT_THAT(places.directory().members, IsEmpty());
  places.set_ready({2});  // never heard of
  EXPECT_FALSE(places.knows({2}));
  places.set_ready({1});
  EXPECT_EQ(places.missing(), 0);
  EXPECT_THAT(words(places.fill({1})), ElementsAre("0.0#1", "0.1#1", "1.0#1", "1.1#1"))
      << "the session began without them";
}

TEST(Places, ALinkIsTriedFromTheOtherSideOnce) {
  Places places(kMesh);
  places.join({.id = {1}, .address = "tcp://a:1"}, 2);
  places.join({.id = {2}, .address = "tcp://b:1"}, 2);
  places.set_ready({1});
  places.set_ready({2});
  places.begin_session();
  const int64_t number = places.directory().number;
  EXPECT_TRUE(places.directory().dials({2}, {1}));
  EXPECT_TRUE(places.turn_around({2}, {1}));
  EXPECT_TRUE(places.directory().dials({1}, {2}));
  EXPECT_GT(places.directory().number, number) << "others must hear of it";
  EXPECT_FALSE(places.turn_around({1}, {2})) << "both have tried";
  places.leave({2});
  EXPECT_THAT(places.directory().turned, IsEmpty());
}

TEST(Places, StayWithAProcessOverSessions) {
  Places places(kMesh);
  add(places, 1, 1);
  add(places, 2, 1);
  add(places, 3, 2);
  places.begin_session();
  EXPECT_THAT(words(places.leave({1})), ElementsAre("0.0#0"));
  add(places, 4, 1);
  places.begin_session();
  EXPECT_THAT(places_of(places, 2), ElementsAre("0.1#0"));
  EXPECT_THAT(places_of(places, 3), ElementsAre("1.0#0", "1.1#0"));
  EXPECT_THAT(places_of(places, 4), ElementsAre("0.0#0"));
}

TEST(Places, CountIncarnationsWithinASession) {
  Places places(kMesh);
  add(places, 1, 4);
  places.begin_session();
  for (int64_t times = 1; times <= 3; ++times) {
    places.leave({times});
    EXPECT_EQ(places.empty(), 4);
    EXPECT_EQ(places.missing(), 4);
    add(places, times + 1, 1);
    EXPECT_THAT(words(places.fill({times + 1})), ElementsAre("0.0#" + std::to_string(times)));
  }
  add(places, 9, 3);
  EXPECT_THAT(words(places.fill({9})), ElementsAre("0.1#1", "1.0#1", "1.1#1"));
  places.begin_session();
  EXPECT_THAT(places_of(places, 4), ElementsAre("0.0#0"));
  EXPECT_THAT(places_of(places, 9), ElementsAre("0.1#0", "1.0#0", "1.1#0"));
}

TEST(Places, ASpareWaitsUntilOneIsEmpty) {
  Places places(kMesh);
  add(places, 1, 2);
  add(places, 2, 2);
  add(places, 3, 1);
  places.begin_session();
  EXPECT_THAT(places_of(places, 3), IsEmpty());
  EXPECT_EQ(places.directory().find({3}), nullptr);
  EXPECT_THAT(places.fill({3}), IsEmpty());
  places.leave({1});
  EXPECT_THAT(words(places.fill({3})), ElementsAre("0.0#1"));
  EXPECT_EQ(places.empty(), 1);
  EXPECT_EQ(places.directory().home_of({.replica = {0}, .stage = {0}}), ProcessId{3});
}

TEST(Places, AProcessMakesItsWorkersOnceInASession) {
  Places places(kMesh);
  add(places, 1, 2);
  add(places, 2, 3);
  places.begin_session();
  EXPECT_THAT(places_of(places, 2), ElementsAre("1.0#0", "1.1#0"));
  places.leave({1});
  EXPECT_THAT(places.fill({2}), IsEmpty()) << "it has room for one, but its workers are made";
  places.begin_session();
  EXPECT_EQ(places.find({2})->places.size(), 3U);
}

TEST(Places, WhoeverLeavesIsForgotten) {
  Places places(kMesh);
  add(places, 1, 1);
  places.begin_session();
  EXPECT_EQ(places.named("process 1"), ProcessId{1});
  EXPECT_EQ(places.leave({1}).size(), 1U);
  EXPECT_THAT(places.leave({1}), IsEmpty());
  EXPECT_THAT(places.leave({7}), IsEmpty());
  EXPECT_FALSE(places.knows({1}));
  EXPECT_EQ(places.find({1}), nullptr);
  EXPECT_EQ(places.named("process 1"), std::nullopt);
  EXPECT_THAT(places.fill({1}), IsEmpty());
}

TEST(Places, EveryChangeMakesANewerDirectory) {
  Places places(kMesh);
  add(places, 1, 2);
  add(places, 2, 2);
  int64_t number = places.directory().number;
  const auto is_newer = [&] {
    return places.directory().number > std::exchange(number, places.directory().number);
  };
  places.begin_session();
  EXPECT_TRUE(is_newer());
  places.leave({2});
  EXPECT_TRUE(is_newer());
  EXPECT_EQ(places.directory().members.size(), 1U);
  add(places, 3, 2);
  places.fill({3});
  EXPECT_TRUE(is_newer());
  places.fill({3});
  EXPECT_FALSE(is_newer()) << "nothing has changed";
}

}  // namespace
}  // namespace leeway
