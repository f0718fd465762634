#include "fleet/directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leeway {
namespace {

using nlohmann::json;

constexpr WorkerId worker(int64_t replica, int64_t stage) {
  return {.replica = {replica}, .stage = {stage}};
}

Directory two_processes() {
  return {.number = 4,
          .members = {
              {.id = {7},
               .name = "berlin",
               .address = "tcp://berlin:1",
               .key = "K",
               .places = {{.worker = worker(0, 0), .incarnation = 2}, {.worker = worker(1, 1)}}},
              {.id = {9}, .places = {{.worker = worker(0, 1)}}}}};
}

TEST(Directory, KnowsWhoIsWhere) {
  const Directory directory = two_processes();
  EXPECT_EQ(directory.home_of(worker(0, 0)), ProcessId{7});
  EXPECT_EQ(directory.home_of(worker(0, 1)), ProcessId{9});
  EXPECT_EQ(directory.home_of(worker(1, 0)), std::nullopt);
  ASSERT_NE(directory.find({7}), nullptr);
  EXPECT_EQ(directory.find({7})->name, "berlin");
  EXPECT_EQ(directory.find({8}), nullptr);
}

TEST(Directory, AProcessSpeaksForItsOwnPlacesAsTheyAreNow) {
  const Directory directory = two_processes();
  EXPECT_TRUE(directory.may_speak({7}, worker(0, 0), 2));
  EXPECT_FALSE(directory.may_speak({7}, worker(0, 0), 1)) << "an earlier one had the place";
  EXPECT_FALSE(directory.may_speak({7}, worker(0, 0), 3));
  EXPECT_FALSE(directory.may_speak({7}, worker(0, 1), 0)) << "another process has the place";
  EXPECT_TRUE(directory.may_speak({9}, worker(0, 1), 0));
  EXPECT_FALSE(directory.may_speak({8}, worker(0, 1), 0)) << "it is in no directory";
  EXPECT_FALSE(directory.may_speak({7}, worker(1, 0), 0)) << "nobody has the place";
}

TEST(Directory, ComesBackAsItWas) {
  const Directory directory = two_processes();
  const Result<Directory> back = directory_from(to_json(directory));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->number, 4);
  ASSERT_EQ(back->members.size(), 2U);
  const Member& berlin = back->members.front();
  EXPECT_EQ(berlin.id, ProcessId{7});
  EXPECT_EQ(berlin.name, "berlin");
  EXPECT_EQ(berlin.address, "tcp://berlin:1");
  EXPECT_EQ(berlin.key, "K");
  EXPECT_EQ(berlin.places, directory.members.front().places);
  EXPECT_EQ(to_json(*back), to_json(directory));
  EXPECT_TRUE(directory_from(to_json(Directory{})).ok());
}

TEST(Directory, WhatIsNoDirectoryIsAnError) {
  for (const char* text : {"null", "7", "[]", "\"number\"", "{}", "{\"number\":1}",
                           "{\"members\":[]}", "{\"number\":1,\"members\":{}}",
                           "{\"number\":1,\"members\":[7]}", "{\"number\":1,\"members\":[{}]}",
                           "{\"number\":1,\"members\":[[]]}", "{\"number\":1.5,\"members\":[]}"}) {
    EXPECT_FALSE(directory_from(json::parse(text)).ok()) << text;
  }
}

TEST(Directory, EveryFactIsNeededAndOfItsType) {
  const json whole = to_json(two_processes());
  for (const char* name : {"process", "name", "address", "key", "places"}) {
    json missing = whole;
    missing["members"][1].erase(name);
    EXPECT_FALSE(directory_from(missing).ok()) << name;
    for (const json& wrong : {json(nullptr), json(0.5), json::object(), json(true)}) {
      json other = whole;
      other["members"][1][name] = wrong;
      EXPECT_FALSE(directory_from(other).ok()) << name << " " << wrong;
    }
  }
  for (const char* place : {"7", "[]", "[0,1]", "[0,1,2,3]", "[0,1,\"2\"]", "[0,1,2.5]", "{}"}) {
    json other = whole;
    other["members"][0]["places"][1] = json::parse(place);
    EXPECT_FALSE(directory_from(other).ok()) << place;
  }
}

// One side of each link must be reachable, whichever it is.
TEST(Directory, OneOfTwoDials) {
  Directory directory = {
      .number = 1,
      .members = {
          {.id = {7}, .address = "tcp://a:1"}, {.id = {9}, .address = "tcp://b:1"}, {.id = {3}}}};
  EXPECT_TRUE(directory.dials({9}, {7})) << "the larger id";
  EXPECT_FALSE(directory.dials({7}, {9}));
  EXPECT_TRUE(directory.dials({3}, {9})) << "it cannot be dialed";
  EXPECT_FALSE(directory.dials({9}, {3}));
  EXPECT_FALSE(directory.dials({9}, {8})) << "nobody";
  directory.turned = {{{7}, {9}}};
  EXPECT_TRUE(directory.dials({7}, {9}));
  EXPECT_FALSE(directory.dials({9}, {7}));
  const Result<Directory> back = directory_from(to_json(directory));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->turned, directory.turned);
}

TEST(Directory, NumbersThatDoNotFitAreAnError) {
  const uint64_t huge = ~uint64_t{0};
  json number = to_json(two_processes());
  number["number"] = huge;
  EXPECT_FALSE(directory_from(number).ok()) << "it would pass for the number -1";
  json process = to_json(two_processes());
  process["members"][0]["process"] = huge;
  EXPECT_FALSE(directory_from(process).ok());
  json place = to_json(two_processes());
  place["members"][0]["places"][0][2] = huge;
  EXPECT_FALSE(directory_from(place).ok());
}

}  // namespace
}  // namespace leeway
