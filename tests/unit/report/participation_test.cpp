#include "report/participation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "../../support/temporary_folder.h"
#include "base/rng.h"
#include "report/run_follower.h"

namespace leeway {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr size_t kMany = 100;

Event members_line(int64_t update, const std::string& replicas) {
  return Event("members").add("update", update).add("table", 1).add("replicas", replicas);
}
Event joined_line(int64_t update, const std::string& replicas, int64_t joined, int64_t from) {
  return members_line(update, replicas).add("joined", joined).add("from", from);
}
Event update_line(int64_t update, const std::string& replicas = "") {
  Event event("update");
  event.add("update", update).add("loss", 5.0).add("tokens", 100 * update).add("seconds", 1.0);
  if (!replicas.empty()) event.add("replicas", replicas);
  return event;
}

std::string told(const std::vector<Event>& lines, int64_t last, int64_t replicas = 3) {
  Participation participation(kMany);
  for (const Event& line : lines) participation.note(line);
  std::string text;
  for (const ReplicaUpdates& row : participation.up_to(last, replicas)) {
    text += (text.empty() ? "" : "; ") + text_of(row.updates);
  }
  return text;
}

TEST(Participation, IsEmptyIfNobodyWasAway) {
  EXPECT_EQ(told({}, 600), "");
  EXPECT_EQ(told({update_line(1), Event("resumed").add("update", 1), update_line(2)}, 2), "");
  EXPECT_EQ(told({members_line(0, "0 1 2"), update_line(1)}, 1), "");
  EXPECT_EQ(told({members_line(200, "0 2")}, 200), "") << "no update without it yet";
  EXPECT_EQ(told({members_line(0, "0")}, 9, /*replicas=*/1), "");
  EXPECT_EQ(told({members_line(0, "")}, 0), "");
}

TEST(Participation, AReplicaLeavesAndComesBack) {
  EXPECT_EQ(told({members_line(200, "0 2")}, 600), "1 to 600; 1 to 200; 1 to 600");
  EXPECT_EQ(told({members_line(200, "0 2"), joined_line(303, "0 1 2", 1, 303)}, 600),
            "1 to 600; 1 to 200, 304 to 600; 1 to 600");
  EXPECT_EQ(told({members_line(200, "0 2"), members_line(303, "0 1 2")}, 600),
            "1 to 600; 1 to 200, 304 to 600; 1 to 600")
      << "a log of an earlier build";
  EXPECT_EQ(told({members_line(0, "0 2"), members_line(5, "2")}, 9), "1 to 5; none; 1 to 9");
  EXPECT_EQ(told({members_line(1, "0 1"), joined_line(2, "0 1 2", 2, 2)}, 3),
            "1 to 3; 1 to 3; 1, 3");
}

TEST(Participation, AReplicaGoesOnWhereItsLineSays) {
  const Event left = members_line(200, "0 2");
  const std::string back_at_310 = "1 to 600; 1 to 200, 311 to 600; 1 to 600";
  // The others have not reached it yet.
  EXPECT_EQ(told({left, joined_line(303, "0 1 2", 1, 310), update_line(304, "0 2"),
                  update_line(310, "0 2"), update_line(311)},
                 600),
            back_at_310);
  // The others have passed it.
  EXPECT_EQ(told({left, update_line(311, "0 2"), joined_line(312, "0 1 2", 1, 310)}, 600),
            back_at_310);
  // It is lost again before.
  EXPECT_EQ(told({left, joined_line(303, "0 1 2", 1, 310), members_line(305, "0 2")}, 600),
            "1 to 600; 1 to 200; 1 to 600");
  // Another one leaves in between.
  EXPECT_EQ(told({left, joined_line(303, "0 1 2", 1, 310), members_line(305, "0 1")}, 600),
            "1 to 600; 1 to 200, 311 to 600; 1 to 305");
}

TEST(Participation, RepeatedLinesChangeNothing) {
  const Event left = members_line(200, "0 2");
  EXPECT_EQ(told({left, left, members_line(250, "0 2"), joined_line(303, "0 1 2", 1, 303),
                  joined_line(320, "0 1 2", 1, 303), members_line(330, "0 1 2")},
                 600),
            "1 to 600; 1 to 200, 304 to 600; 1 to 600");
}

TEST(Participation, ASessionBeginsWithAllReplicas) {
  const Event left = members_line(200, "0 2");
  EXPECT_EQ(told({left, Event("resumed").add("update", 250)}, 600),
            "1 to 600; 1 to 200, 251 to 600; 1 to 600");
  EXPECT_EQ(told({left, joined_line(301, "0 1 2", 1, 303), Event("resumed").add("update", 302),
                  members_line(400, "0 1")},
                 600),
            "1 to 600; 1 to 200, 303 to 600; 1 to 400");
  EXPECT_EQ(told({left, Event("resumed").add("update", 200)}, 600), "");
}

TEST(Participation, ASessionMayHaveMoreOrFewerReplicas) {
  const Event resumed = Event("resumed").add("update", 100);
  Event more("changed");
  more.add("update", 100).add("change", "mesh.replicas was 2 and is now 3");
  EXPECT_EQ(told({members_line(50, "0"), resumed, more}, 200),
            "1 to 200; 1 to 50, 101 to 200; 101 to 200");
  Event fewer("changed");
  fewer.add("update", 100).add("change", "mesh.replicas was 3 and is now 2");
  EXPECT_EQ(told({resumed, fewer, members_line(150, "1")}, 200, /*replicas=*/2),
            "1 to 150; 1 to 200; 1 to 100");
}

TEST(Participation, UpdatesThatNameTheirReplicasCountToo) {
  EXPECT_EQ(told({update_line(1), update_line(2, "0 2"), update_line(3, "0 2"), update_line(4)}, 5),
            "1 to 5; 1, 4 to 5; 1 to 5");
  EXPECT_EQ(told({members_line(1, "0 2"), update_line(2), update_line(3)}, 3), "1 to 3; 1; 1 to 3")
      << "old versions named none";
}

TEST(Participation, LinesThatMakeNoSenseChangeNothing) {
  for (const char* replicas : {"?", "0 x", "-1", "0 256", "99999999999999999999", "0,2"}) {
    EXPECT_EQ(told({members_line(2, replicas), update_line(3, replicas)}, 9), "") << replicas;
  }
  const Event wrong_type = Event("members").add("update", 2).add("replicas", 7);
  const Event without = Event("members").add("replicas", "0 2");
  EXPECT_EQ(told({wrong_type, without, members_line(-5, "0")}, 9), "");
  EXPECT_EQ(told({members_line(INT64_MAX, "0"), update_line(INT64_MIN, "0")}, 9), "");
  EXPECT_EQ(told({Event("resumed"), Event("resumed").add("update", INT64_MIN)}, 9), "");
  for (const int64_t from : {INT64_MIN, int64_t{-1}, int64_t{0}}) {
    EXPECT_EQ(told({members_line(4, "0 2"), joined_line(6, "0 1 2", 1, from)}, 9), "") << from;
  }
  EXPECT_EQ(told({members_line(4, "0 2"), joined_line(6, "0 1 2", 1, INT64_MAX)}, 9),
            "1 to 9; 1 to 4; 1 to 9");
  EXPECT_EQ(told({members_line(2, "0 2"), members_line(3, "0 1 2"), members_line(6, "0 2"),
                  joined_line(7, "0 1 2", 1, 0)},
                 9),
            "1 to 9; 1 to 2, 4 to 9; 1 to 9")
      << "it was there until update 6";
  EXPECT_EQ(told({members_line(4, "0 1")}, INT64_MAX, 2), "");
  EXPECT_EQ(told({members_line(4, "")}, 9, -3), "");
  EXPECT_THAT(told({members_line(4, "")}, 9, INT64_MAX), HasSubstr("1 to 4; 1 to 4"));
  Event resized("changed");
  resized.add("update", INT64_MAX).add("change", "mesh.replicas was 999999 and is now 3");
  EXPECT_THAT(told({resized, members_line(4, "0")}, 9), HasSubstr("1 to 9; 1 to 4"));
}

// Random members, line by line, against one set for each update.
TEST(Participation, FollowsRandomMembers) {
  constexpr int64_t kReplicas = 4;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<Event> lines;
    std::vector<ReplicaSet> made = {ReplicaSet()};
    ReplicaSet now = ReplicaSet::first(kReplicas);
    for (int64_t update = 1; update <= 60; ++update) {
      const uint64_t bits = random_bits({.seed = seed}, static_cast<uint64_t>(update));
      if (bits % 4 == 0) {
        const ReplicaId one = {static_cast<int64_t>(bits / 4 % kReplicas)};
        now.contains(one) ? now.remove(one) : now.add(one);
        if (now.empty()) now.add(one);  // an update without members does not exist
        lines.push_back(members_line(update - 1, text_of(now)));
      }
      made.push_back(now);
      lines.push_back(now.size() < kReplicas && bits / 64 % 2 == 0
                          ? update_line(update, text_of(now))
                          : Event("evaluated").add("update", update));
    }
    Participation participation(kMany);
    for (const Event& line : lines) participation.note(line);
    const auto rows = participation.up_to(60, kReplicas);
    ASSERT_EQ(rows.size(), static_cast<size_t>(kReplicas)) << seed;
    for (const ReplicaUpdates& row : rows) {
      std::vector<bool> there(made.size());
      for (const auto& [first, last] : row.updates) {
        for (int64_t update = first; update <= last; ++update) {
          there[static_cast<size_t>(update)] = true;
        }
      }
      for (size_t update = 1; update < made.size(); ++update) {
        EXPECT_EQ(there[update], made[update].contains(row.replica)) << seed << " " << update;
      }
    }
  }
}

TEST(Participation, KeepsLongAbsencesOfManyInBoundedMemory) {
  Participation participation(/*changes_max=*/8);
  participation.note(members_line(1000, "0"));
  participation.note(members_line(5000, "0 1"));
  EXPECT_EQ(participation.left_out(), 0);
  for (int64_t update = 6000; update < 9000; update += 10) {
    participation.note(members_line(update, "0"));
    participation.note(members_line(update + 3, "0 1"));
  }
  const auto rows = participation.up_to(9999, 2);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_LE(rows[1].updates.size(), 8u);
  EXPECT_EQ(rows[1].updates.front(), (UpdateRange{1, 1000}));
  EXPECT_EQ(rows[1].updates.at(1).first, 5001);
  EXPECT_EQ(rows[1].updates.back().last, 9999);
  EXPECT_EQ(participation.left_out(), 3);
}

TEST(Participation, IsToldInASentence) {
  std::vector<ReplicaUpdates> members = {{.replica = {0}, .updates = {{1, 600}}},
                                         {.replica = {1}, .updates = {{1, 200}, {304, 600}}},
                                         {.replica = {2}}};
  EXPECT_EQ(
      text_of(members),
      "replica 1 took part in updates 1 to 200, 304 to 600; replica 2 took part in no update");
  EXPECT_EQ(to_json(members).dump(),
            R"([{"replica":0,"updates":[[1,600]]},{"replica":1,"updates":[[1,200],[304,600]]},)"
            R"({"replica":2,"updates":[]}])");
  for (int64_t r = 3; r < 9; ++r) members.push_back({.replica = {r}, .updates = {{1, 1}}});
  EXPECT_THAT(text_of(members),
              HasSubstr("replica 4 took part in updates 1; 4 more were away too"));
  EXPECT_EQ(text_of(std::vector<ReplicaUpdates>()), "");
  EXPECT_EQ(text_of(std::vector<UpdateRange>(9, {3, 3})), "3, 3, 3, 3, 3, 3 and 3 more stretches");
}

// As a follower of a run sees it: superseded lines do not count.
TEST(Participation, IsReadFromARunFolder) {
  const TemporaryFolder folder;
  std::ofstream(folder / "config.toml") << "[mesh]\nreplicas = 3\n";
  const auto append = [&](const Event& event) {
    std::ofstream(folder / "events.jsonl", std::ios::app) << event.line() << "\n";
  };
  auto follower = RunFollower::open(folder.path(), {});
  ASSERT_TRUE(follower.ok());
  const auto read = [&] {
    EXPECT_TRUE(follower->poll().ok());
    const auto whole = read_run(folder.path(), {});
    EXPECT_EQ(whole->members, follower->data().members);
    return follower->data();
  };
  append(Event("started").add("version", LEEWAY_VERSION));
  for (int64_t update = 1; update <= 4; ++update) append(update_line(update));
  EXPECT_THAT(read().members, IsEmpty());
  append(members_line(4, "0 2"));
  append(members_line(4, "0 x"));
  for (int64_t update = 5; update <= 6; ++update) append(update_line(update, "0 2"));
  EXPECT_EQ(text_of(read().members), "replica 1 took part in updates 1 to 4");
  append(joined_line(6, "0 1 2", 1, 6));
  append(update_line(7));
  EXPECT_EQ(text_of(read().members), "replica 1 took part in updates 1 to 4, 7");
  append(Event("resumed").add("update", 5));
  append(update_line(6));
  const RunData data = read();
  EXPECT_EQ(text_of(data.members), "replica 1 took part in updates 1 to 4, 6");
  EXPECT_EQ(to_json(data)["members"], to_json(data.members));
  EXPECT_THAT(data.notes, Not(Contains(HasSubstr("who took part"))));
}

}  // namespace
}  // namespace leeway
