// What every post owes the processes of a run: one suite over all of them, in one program.
#include <gtest/gtest.h>

#include <future>
#include <string>

#include "../support/zmq_posts.h"
#include "drivers/mpi/mpi_post.h"
#include "post_suite.h"

namespace leeway {
namespace {

constexpr ProcessId kFirst = {0};
constexpr ProcessId kSecond = {1};

#ifdef LEEWAY_MPI
// MPI starts once in a program.
class MpiWorld final : public testing::Environment {
 public:
  static mpi::World& get() {
    if (world_ == nullptr) world_ = mpi::World::start().value();
    return *world_;
  }
  void TearDown() override { world_.reset(); }

 private:
  static inline std::unique_ptr<mpi::World> world_;
};
const testing::Environment* const environment =
    testing::AddGlobalTestEnvironment(new MpiWorld);  // gtest owns it

// A job of one rank, which has the host and its guest.
OpenPosts open_mpi(std::vector<Post::Handlers> handlers) {
  auto post = std::make_shared<mpi::MpiPost>(
      MpiWorld::get(), mpi::MpiPostOptions{.handlers = {{kFirst, std::move(handlers[0])},
                                                        {kSecond, std::move(handlers[1])}}});
  OpenPosts open = {.owner = post};
  open.posts.push_back(post->endpoint(kFirst));
  open.posts.push_back(post->endpoint(kSecond));
  return open;
}
#endif

#ifdef LEEWAY_ZMQ
OpenPosts open_zmq(std::vector<Post::Handlers> handlers, bool encrypted) {
  return {.posts = open_zmq_posts(std::move(handlers), encrypted)};
}
#endif

std::vector<PostCase> cases() {
  std::vector<PostCase> result;
#ifdef LEEWAY_ZMQ
  for (const size_t processes : {2, 3}) {
    for (const bool encrypted : {false, true}) {
      result.push_back({.name = (encrypted ? "Curve" : "Tcp") + std::to_string(processes),
                        .processes = processes,
                        .open = [encrypted](std::vector<Post::Handlers> handlers) {
                          return open_zmq(std::move(handlers), encrypted);
                        }});
    }
  }
#endif
#ifdef LEEWAY_MPI
  result.push_back({.name = "Mpi", .processes = 2, .open = open_mpi});
#endif
  return result;
}

class PostSuite : public testing::TestWithParam<PostCase> {
 protected:
  // With a ledger for each.
  void open() {
    std::vector<Post::Handlers> handlers;
    for (size_t at = 0; at < GetParam().processes; ++at) {
      ledgers_.push_back(std::make_unique<Ledger>());
      handlers.push_back(ledgers_.back()->handlers());
    }
    posts_ = GetParam().open(std::move(handlers));
  }
  Post& post(ProcessId id) { return *posts_.posts[static_cast<size_t>(id.value)]; }
  Ledger& ledger(ProcessId id) { return *ledgers_[static_cast<size_t>(id.value)]; }
  std::vector<ProcessId> all() const {
    std::vector<ProcessId> ids;
    for (size_t at = 0; at < GetParam().processes; ++at) ids.push_back({static_cast<int64_t>(at)});
    return ids;
  }
  std::vector<Receipt> from_first_to_second(TrafficClass traffic = TrafficClass::kPipeline) {
    return ledger(kSecond).receipts()[{kFirst, traffic}];
  }

  std::vector<std::unique_ptr<Ledger>> ledgers_;  // outlive the posts
  OpenPosts posts_;
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PostSuite);
INSTANTIATE_TEST_SUITE_P(Posts, PostSuite, testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

TEST_P(PostSuite, CarriesParcelsOfEverySizeAsTheyAre) {
  open();
  std::vector<Receipt> sent;
  for (const size_t bytes : {0, 1, 7, 4096, 65'537, 3'000'000, 40'000'000, 0}) {
    Parcel parcel = numbered_parcel(static_cast<int64_t>(sent.size()), bytes);
    parcel.kind = bytes % 2 == 0 ? Parcel::Kind::kFleet : Parcel::Kind::kMesh;
    sent.push_back(receipt_of(parcel));
    post(kFirst).send(kSecond, std::move(parcel));
  }
  ASSERT_TRUE(ledger(kSecond).wait_for(sent.size()));
  EXPECT_EQ(from_first_to_second(), sent);
  EXPECT_TRUE(ledger(kFirst).receipts().empty());
}

TEST_P(PostSuite, TenThousandSmallParcelsArriveInOrder) {
  open();
  constexpr int64_t kCount = 10'000;
  std::vector<Receipt> sent;
  for (int64_t number = 0; number < kCount; ++number) {
    Parcel parcel = numbered_parcel(number, static_cast<size_t>(number % 100));
    sent.push_back(receipt_of(parcel));
    post(kFirst).send(kSecond, std::move(parcel));
  }
  ASSERT_TRUE(ledger(kSecond).wait_for(kCount));
  EXPECT_EQ(from_first_to_second(), sent);
}

TEST_P(PostSuite, EveryLinkKeepsTheOrderOfEachClass) {
  open();
  const Mix mix = {.seed = 11};
  for (const ProcessId from : all()) send_mix(mix, post(from), from, all());
  for (const ProcessId to : all()) {
    const auto count = static_cast<size_t>(mix.count) * all().size();
    ASSERT_TRUE(ledger(to).wait_for(count));
    EXPECT_EQ(ledger(to).receipts(), expected_of_mix(mix, all(), to)) << "process " << to.value;
  }
}

TEST_P(PostSuite, AHandlerMaySend) {
  std::promise<int64_t> answer;
  std::vector<Post::Handlers> handlers(GetParam().processes);
  for (auto& each : handlers) each.received = [](ProcessId, Parcel) {};
  handlers[0].received = [&](ProcessId, Parcel parcel) { answer.set_value(parcel.session); };
  handlers[1].received = [&](ProcessId from, Parcel parcel) {
    post(kSecond).send(from, numbered_parcel(parcel.session + 1, 5));
  };
  posts_ = GetParam().open(std::move(handlers));
  post(kFirst).send(kSecond, numbered_parcel(41, 5));
  EXPECT_EQ(answer.get_future().get(), 42);
  posts_.posts.clear();  // before what the handlers use
}

// Which ones are replaced depends on how fast they leave; what must arrive does not.
TEST_P(PostSuite, TheNewestOfASlotArrivesAndNothingWithoutASlotIsLost) {
  open();
  constexpr int64_t kCount = 3'000;
  constexpr int64_t kSlots = 3;
  std::vector<int64_t> plain;
  for (int64_t number = 0; number < kCount; ++number) {
    Parcel parcel = numbered_parcel(number, 20'000);
    if (number % 4 == 0 && number + 1 < kCount) {
      plain.push_back(number);
    } else {
      parcel.slot = static_cast<uint64_t>(1 + number % kSlots);
    }
    post(kFirst).send(kSecond, std::move(parcel));
  }
  // One of another class must not be replaced by them.
  Parcel other = numbered_parcel(kCount, 1, TrafficClass::kAveraging);
  other.slot = 1;
  post(kFirst).send(kSecond, std::move(other));
  for (const ProcessId id : all()) post(id).close();

  std::vector<int64_t> plain_arrived;
  std::map<int64_t, std::vector<int64_t>> arrived;  // by slot
  for (const Receipt& receipt : from_first_to_second()) {
    const bool is_plain = receipt.number % 4 == 0 && receipt.number + 1 < kCount;
    (is_plain ? plain_arrived : arrived[receipt.number % kSlots]).push_back(receipt.number);
    EXPECT_EQ(receipt, receipt_of(numbered_parcel(receipt.number, 20'000)));
  }
  EXPECT_EQ(plain_arrived, plain);
  for (int64_t slot = 0; slot < kSlots; ++slot) {
    int64_t newest = kCount - 1;
    while (newest % kSlots != slot || (newest % 4 == 0 && newest + 1 < kCount)) --newest;
    ASSERT_FALSE(arrived[slot].empty());
    EXPECT_EQ(arrived[slot].back(), newest);
    EXPECT_TRUE(std::ranges::is_sorted(arrived[slot], std::less_equal<>()));
  }
  EXPECT_EQ(from_first_to_second(TrafficClass::kAveraging).size(), 1u);
}

TEST_P(PostSuite, CloseDeliversWhatWasSent) {
  open();
  const Mix mix = {.seed = 12, .count = 100};
  send_mix(mix, post(kFirst), kFirst, {kSecond});
  for (const ProcessId id : all()) post(id).close();
  EXPECT_EQ(ledger(kSecond).receipts(), expected_of_mix(mix, {kFirst}, kSecond));
}

TEST_P(PostSuite, NothingIsSentOrReceivedAfterClose) {
  open();
  post(kFirst).close();
  post(kFirst).send(kSecond, numbered_parcel(1, 10));
  post(kSecond).send(kFirst, numbered_parcel(2, 10));
  post(kSecond).send(kSecond, numbered_parcel(3, 10));
  post(kSecond).close();
  post(kSecond).close();  // twice is once
  EXPECT_TRUE(ledger(kFirst).receipts().empty());
  EXPECT_TRUE(from_first_to_second().empty());
  const auto own = ledger(kSecond).receipts()[{kSecond, TrafficClass::kPipeline}];
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own.front().number, 3);
}

}  // namespace
}  // namespace leeway
