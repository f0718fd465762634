#include "fleet/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../support/mesh_without_compute.h"
#include "../../support/no_recorder.h"
#include "drivers/threads/wall_clock.h"

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr ProcessId kSelf = {5};
constexpr ProcessId kOther = {6};
constexpr WorkerId kHere = {.replica = {0}, .stage = {0}};
constexpr WorkerId kThere = {.replica = {0}, .stage = {1}};

// Every message that is let in moves the clock of the journal.
class Ticks final : public Journal {
 public:
  void worked(const WorkRecord&) override {}
  void predicted(const Prediction&) override {}
  void move_tick_to(int64_t tick) override { seen.push_back(tick); }
  std::vector<int64_t> seen;
};

// A process with one of two workers; another process has the other one, for the third time.
class GateTest : public testing::Test {
 protected:
  GateTest()
      : plan_(plan_of({.stages = 2}, 4)),
        workers_(make_mesh(plan_)),
        gate_([this](ProcessId to, Parcel parcel) { sent_.emplace_back(to, std::move(parcel)); }) {
    plan_.run = 77;
    gate_.adopt({.number = 1,
                 .members = {{.id = kSelf, .places = {{.worker = kHere}}},
                             {.id = kOther, .places = {{.worker = kThere, .incarnation = 2}}}}});
  }
  ~GateTest() override { gate_.close(); }

  void open(int64_t session) {
    router_ = gate_.open(session, plan_);
    process_.emplace(ProcessOptions{.plan = plan_,
                                    .workers = {workers_.front().get()},
                                    .journal = ticks_,
                                    .clock = clock_,
                                    .router = router_});
    gate_.attach(*process_);
  }
  Message message(int64_t tick, MessageKind kind = MessageKind::kGradient) const {
    Message made = {.kind = kind, .from = kThere, .to = kHere};
    made.envelope = {.run = 77, .incarnation = 2, .tick = tick};
    return made;
  }
  void receive(ProcessId from, int64_t session, const Message& made) {
    gate_.receive(from, {.session = session, .bytes = to_bytes(made)});
  }

  RunPlan plan_;
  IdleWorkers workers_;
  const threads::WallClock clock_;
  Ticks ticks_;
  std::vector<std::pair<ProcessId, Parcel>> sent_;
  Gate gate_;
  Router router_;
  std::optional<Process> process_;
};

TEST_F(GateTest, LetsInWhatIsOfThisSession) {
  open(3);
  receive(kOther, 3, message(11));
  EXPECT_THAT(ticks_.seen, ElementsAre(11));
  EXPECT_EQ(gate_.disbelieved(), 0);
}

TEST_F(GateTest, WhatIsOfAnEarlierSessionIsForNobody) {
  open(3);
  receive(kOther, 2, message(11));
  EXPECT_THAT(ticks_.seen, IsEmpty());
  gate_.close();
  open(4);
  EXPECT_THAT(ticks_.seen, IsEmpty());
  EXPECT_EQ(gate_.disbelieved(), 0) << "it was true once";
}

TEST_F(GateTest, WhatIsOfALaterSessionWaitsForIt) {
  receive(kOther, 3, message(11));
  open(3);
  EXPECT_THAT(ticks_.seen, ElementsAre(11)) << "it came before the session was here";
  receive(kOther, 4, message(12));
  receive(kOther, 4, message(13));
  receive(kOther, 5, message(14));
  EXPECT_THAT(ticks_.seen, ElementsAre(11));
  gate_.close();
  receive(kOther, 4, message(15));
  open(4);
  EXPECT_THAT(ticks_.seen, ElementsAre(11, 12, 13, 15)) << "in the order in which they came";
}

TEST(Gate, KeepsWhatComesBeforeItsFirstDirectory) {
  RunPlan plan = plan_of({.stages = 2}, 4);
  plan.run = 77;
  const IdleWorkers workers = make_mesh(plan);
  const threads::WallClock clock;
  Ticks ticks;
  Gate gate([](ProcessId, Parcel) {});
  Message early = {.kind = MessageKind::kGradient, .from = kThere, .to = kHere};
  early.envelope = {.run = 77, .incarnation = 2, .tick = 11};
  gate.receive(kOther, {.session = 1, .bytes = to_bytes(early)});
  gate.receive({9}, {.session = 1, .bytes = to_bytes(early)});  // of no directory that comes
  gate.adopt({.number = 1,
              .members = {{.id = kSelf, .places = {{.worker = kHere}}},
                          {.id = kOther, .places = {{.worker = kThere, .incarnation = 2}}}}});
  const Router router = gate.open(1, plan);
  Process process(ProcessOptions{.plan = plan,
                                 .workers = {workers.front().get()},
                                 .journal = ticks,
                                 .clock = clock,
                                 .router = router});
  gate.attach(process);
  EXPECT_THAT(ticks.seen, ElementsAre(11));
  EXPECT_EQ(gate.disbelieved(), 1);
  gate.close();
}

// Nobody who keeps to the protocol is two sessions ahead, and nobody else is let fill the memory.
TEST_F(GateTest, OnlyWhatIsOfTheNextSessionWaits) {
  open(3);
  receive(kOther, 5, message(14));
  receive({9}, 4, message(15));  // of no directory
  receive(kOther, 4, message(16));
  gate_.close();
  open(4);
  EXPECT_THAT(ticks_.seen, ElementsAre(16));
  gate_.close();
  open(5);
  EXPECT_THAT(ticks_.seen, ElementsAre(16));
}

TEST_F(GateTest, ASessionMayBeExpectedBeforeItIsOpen) {
  gate_.expect(7);
  receive(kOther, 7, message(11));
  receive(kOther, 9, message(12));
  open(7);
  EXPECT_THAT(ticks_.seen, ElementsAre(11));
}

TEST_F(GateTest, WhatAStrangerSaysIsNotKeptForLater) {
  receive({9}, 3, message(11));
  gate_.adopt(
      {.number = 2, .members = {{.id = {9}, .places = {{.worker = kThere, .incarnation = 2}}}}});
  open(3);
  EXPECT_THAT(ticks_.seen, IsEmpty());
  EXPECT_EQ(gate_.disbelieved(), 1);
}

TEST_F(GateTest, NobodySpeaksForAPlaceThatIsNotHis) {
  open(3);
  receive({9}, 3, message(11));
  receive(kSelf, 3, message(12));
  EXPECT_EQ(gate_.disbelieved(), 2);
  Message old = message(13);
  old.envelope.incarnation = 1;
  receive(kOther, 3, old);
  Message next = message(14);
  next.envelope.incarnation = 3;
  receive(kOther, 3, next);
  EXPECT_EQ(gate_.disbelieved(), 4);
  Message disguised = message(15, MessageKind::kOver);
  disguised.from = kCoordinator;
  receive(kOther, 3, disguised);
  EXPECT_EQ(gate_.disbelieved(), 5) << "only the host speaks for the coordinator";
  EXPECT_THAT(ticks_.seen, IsEmpty());
}

TEST_F(GateTest, TheHostSpeaksForTheCoordinatorAlone) {
  open(3);
  receive(kHost, 3, message(11));
  EXPECT_EQ(gate_.disbelieved(), 1) << "not for a worker";
  Message ask = message(12, MessageKind::kAsk);
  ask.from = kCoordinator;
  receive(kHost, 3, ask);
  EXPECT_EQ(gate_.disbelieved(), 2) << "what the user wants is said to the host";
  Message heard = message(13, MessageKind::kHeard);
  heard.from = kCoordinator;
  receive(kHost, 3, heard);
  EXPECT_THAT(ticks_.seen, ElementsAre(13));
}

TEST_F(GateTest, WhatIsNoMessageOrForSomebodyElseIsNotTaken) {
  open(3);
  gate_.receive(kOther, {.session = 3, .bytes = std::vector<std::byte>(40)});
  gate_.receive(kOther, {.session = 3, .bytes = {}});
  Message elsewhere = message(11);
  elsewhere.to = kThere;
  receive(kOther, 3, elsewhere);
  receive(kOther, 3, message(12, MessageKind::kLost));
  EXPECT_EQ(gate_.disbelieved(), 4);
  EXPECT_THAT(ticks_.seen, IsEmpty());
}

TEST_F(GateTest, ANewerDirectoryDecidesAndAnOlderOneDoesNot) {
  open(3);
  gate_.adopt(
      {.number = 3, .members = {{.id = {9}, .places = {{.worker = kThere, .incarnation = 3}}}}});
  gate_.adopt({.number = 2, .members = {}});
  EXPECT_EQ(gate_.directory().number, 3);
  receive(kOther, 3, message(11));
  Message next = message(12);
  next.envelope.incarnation = 3;
  receive({9}, 3, next);
  EXPECT_THAT(ticks_.seen, ElementsAre(12));
}

TEST(SlotOf, OnlyANewerPartWithContentTakesThePlaceOfOneThatWaits) {
  RunPlan plan = plan_of({.stages = 1}, 4);
  plan.lanes = {LanePlan{.lane = Lane::kMain, .replicas = 2}};
  Message part = {.kind = MessageKind::kContribution, .from = kHere, .to = kThere, .index = 1};
  part.lane = Lane::kMain;
  part.replicas = ReplicaSet::of({0});
  const uint64_t slot = slot_of(part, plan);
  EXPECT_NE(slot, 0U);
  Message newer = part;
  newer.index = 2;
  EXPECT_EQ(slot_of(newer, plan), slot);
  Message position = newer;
  position.replicas = {};
  EXPECT_NE(slot_of(position, plan), slot) << "the steps that wait would be lost";
  Message answer = part;
  answer.kind = MessageKind::kAnswer;
  EXPECT_EQ(slot_of(answer, plan), 0U);
  plan.lanes.front().lag_backwards = 3;
  EXPECT_EQ(slot_of(part, plan), 0U) << "with a fixed lag every part is waited for";
}

TEST_F(GateTest, WhatIsSentGoesWhereItsReceiverLives) {
  open(3);
  Message out = {.kind = MessageKind::kActivation, .from = kHere, .to = kThere};
  router_(out);
  router_({.kind = MessageKind::kReport, .from = kHere, .to = kCoordinator});
  gate_.close();  // what was sent has left
  ASSERT_EQ(sent_.size(), 2U);
  EXPECT_EQ(sent_[0].first, kOther);
  EXPECT_EQ(sent_[0].second.session, 3);
  EXPECT_EQ(sent_[0].second.traffic, TrafficClass::kPipeline);
  EXPECT_EQ(sent_[1].first, kHost);
  gate_.adopt({.number = 2, .members = {}});
  open(4);
  router_(out);
  gate_.close();
  EXPECT_EQ(sent_.size(), 2U) << "the place is empty: nobody gets it";
}

}  // namespace
}  // namespace leeway
