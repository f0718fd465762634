// A state on its way to one that joins: in parts, checked, asked for again.
#include "worker/state_transfer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace leeway {
namespace {

StageState state_of(int64_t update, int64_t parameters) {
  StageState state = {.worker = {{0}, {1}}, .update = update};
  state.weights = at::arange(parameters, at::kFloat);
  state.optimizer.updates = update;
  state.optimizer.momentum_product = 0.25;
  state.optimizer.buffers = {{"momentum", at::full({parameters}, 2.0F)},
                             {"variance", at::full({parameters}, 3.0F)}};
  return state;
}

Membership of_two() { return Membership(2).without({1}, 1); }

class Transfer : public testing::Test {
 protected:
  // One question, as a message would bring it, and its answer.
  Message answer() {
    donor.ask({1}, receiver.update(), receiver.part());
    receiver.asked();
    if (donor.wants_snapshot(updates)) {
      const at::Tensor bytes = pack_state(state_of(updates, parameters));
      donor.take_snapshot({.worker = {{0}, {1}}, .update = updates, .rounds = {7}}, bytes,
                          bytes.numel());
    }
    StateDonor::Answer part = donor.take_answer();
    Message message = {.kind = MessageKind::kState,
                       .from = {{0}, {1}},
                       .to = {{1}, {1}},
                       .index = part.parts,
                       .update = part.update};
    message.chunk = part.part;
    message.payload = part.bytes;
    message.report = part.what;
    return message;
  }

  int64_t updates = 5;
  int64_t parameters = 300'000;  // 3.6 MB: four parts
  StateDonor donor;
  StateReceiver receiver{nullptr, 10};
};

TEST_F(Transfer, BringsTheWholeState) {
  EXPECT_FALSE(receiver.ask_due()) << "it does not know whom to ask";
  receiver.adopt(of_two(), 5);
  int parts = 0;
  while (!receiver.can_load()) {
    ASSERT_TRUE(receiver.ask_due());
    receiver.deliver(answer());
    receiver.reminded(2 * ++parts);  // it may ask for the next one
    updates += 1;                    // the donor trains on, and the snapshot stays
  }
  EXPECT_EQ(parts, 4);
  EXPECT_EQ(receiver.rounds(), std::vector<int64_t>{7});
  const Result<StageState> state = receiver.take_state();
  ASSERT_TRUE(state.ok()) << state.error().message;
  const StageState sent = state_of(5, parameters);
  EXPECT_EQ(state->optimizer.updates, 5);
  EXPECT_EQ(state->optimizer.momentum_product, 0.25);
  EXPECT_TRUE(at::equal(state->weights, sent.weights));
  ASSERT_EQ(state->optimizer.buffers.size(), 2U);
  EXPECT_EQ(state->optimizer.buffers[1].first, "variance");
  EXPECT_TRUE(at::equal(state->optimizer.buffers[1].second, sent.optimizer.buffers[1].second));
}

TEST_F(Transfer, KeepsThePace) {
  receiver.adopt(of_two(), 5);
  receiver.deliver(answer());
  EXPECT_FALSE(receiver.ask_due()) << "the next part has to wait";
  receiver.reminded(4);
  EXPECT_FALSE(receiver.ask_due()) << "a reminder of a question that it has not asked yet";
  receiver.reminded(2);
  EXPECT_TRUE(receiver.ask_due());
}

TEST_F(Transfer, APartThatDoesNotComeIsAskedForAgain) {
  receiver.adopt(of_two(), 5);
  const Message lost = answer();
  receiver.reminded(2);
  EXPECT_FALSE(receiver.ask_due()) << "it may be on its way";
  receiver.reminded(3);
  EXPECT_TRUE(receiver.ask_due());
  EXPECT_EQ(receiver.part(), 0);
  receiver.deliver(answer());
  receiver.deliver(lost);  // after all
  EXPECT_EQ(receiver.part(), 1) << "twice is once";
}

TEST_F(Transfer, ADonorThatHasANewSnapshotBeginsAgain) {
  receiver.adopt(of_two(), 5);
  receiver.deliver(answer());
  receiver.reminded(2);
  EXPECT_EQ(receiver.part(), 1);
  donor.forget();
  updates = 40;
  receiver.deliver(answer());
  EXPECT_EQ(receiver.update(), 40);
  EXPECT_EQ(receiver.part(), 1) << "the first part of the new one";
}

TEST_F(Transfer, AnotherDonorBeginsAgain) {
  const Membership three = Membership(3).without({2}, 1);
  receiver.adopt(three, 5);
  receiver.deliver(answer());
  EXPECT_EQ(receiver.donor(), ReplicaId{0});
  receiver.adopt(three.without({0}, 2), 5);
  EXPECT_EQ(receiver.donor(), ReplicaId{1});
  EXPECT_EQ(receiver.part(), 0);
  receiver.adopt(Membership(3, ReplicaSet()), 5);
  EXPECT_FALSE(receiver.ask_due()) << "nobody is left";
}

TEST_F(Transfer, ItsOwnDiskIsUsedWhileItIsFresh) {
  const auto own = std::make_shared<const StageState>(state_of(30, 10));
  StateReceiver fresh(own, 10);
  fresh.adopt(of_two(), 40);
  EXPECT_TRUE(fresh.can_load());
  EXPECT_EQ(fresh.take_state()->update, 30);
  StateReceiver stale(own, 10);
  stale.adopt(of_two(), 41);
  EXPECT_FALSE(stale.can_load());
  EXPECT_TRUE(stale.ask_due());
}

TEST(StateParts, ADamagedPartIsNoticed) {
  const at::Tensor bytes = pack_state(state_of(3, 1000));
  const at::Tensor part = state_part(bytes, 0);
  EXPECT_TRUE(at::equal(part_without_hash(part), bytes));
  const at::Tensor damaged = part.clone();
  damaged[100] = damaged[100].item<uint8_t>() ^ 1;
  EXPECT_FALSE(part_without_hash(damaged).defined());
  EXPECT_FALSE(part_without_hash(at::empty({3}, at::kByte)).defined());
  EXPECT_FALSE(part_without_hash(at::Tensor()).defined());
}

TEST(StateParts, BytesThatAreNoStateAreRefused) {
  const at::Tensor bytes = pack_state(state_of(3, 1000));
  for (const int64_t length : {int64_t{0}, int64_t{10}, int64_t{100}, bytes.numel() - 1}) {
    EXPECT_FALSE(unpack_state(bytes.narrow(0, 0, length)).ok()) << length;
  }
  EXPECT_FALSE(unpack_state(at::cat({bytes, bytes})).ok());
  EXPECT_FALSE(unpack_state(at::full({100}, 255, at::kByte)).ok());
}

}  // namespace
}  // namespace leeway
