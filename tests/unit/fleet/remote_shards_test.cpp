// What a guest's worker saves travels to the host's disk: both ends, with a wire between them that
// a test can bend.
#include "fleet/remote_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../support/data_files.h"
#include "../../support/memory_store.h"
#include "../../support/temporary_folder.h"
#include "base/hash.h"
#include "fleet/uploads.h"
#include "worker/state_transfer.h"

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr ProcessId kGuest = {5};
constexpr Nanos kAWhile = {300'000'000};  // where no answer comes
constexpr WorkerId kOwn = {.replica = {1}, .stage = {0}};

StageState state_of(WorkerId worker, int64_t update, int64_t values = 10) {
  const at::Tensor ramp = at::arange(values, at::kFloat);
  return {.worker = worker,
          .update = update,
          .weights = ramp / 7,
          .optimizer = {.buffers = {{"momentum", ramp / 3}}, .updates = update},
          .rounds = {4}};
}

class BentWire final : public Wire {
 public:
  std::function<void(Note note)> sends;
  void send(ProcessId to, Parcel parcel) override {
    EXPECT_EQ(to, kHost);
    const Result<Note> note = note_from(parcel.bytes);
    ASSERT_TRUE(note.ok());
    if (sends) sends(*note);
  }
  void adopt(const Directory&) override {}
  void forget(ProcessId) override {}
  std::optional<Stranger> stranger(ProcessId) const override { return std::nullopt; }
  void shape(const NetworkOptions&) override {}
  std::string address() const override { return ""; }
  Heard heard() const override { return {}; }
  void close() override {}
};

class RemoteShardsTest : public testing::Test {
 protected:
  void SetUp() override {
    wire_.sends = [this](const Note& note) { take(note); };
  }
  void take(const Note& note) {
    uploads_.take(kGuest, note, [](WorkerId worker) { return worker == kOwn; });
  }
  void answer(ProcessId to, const Note& note) {
    EXPECT_EQ(to, kGuest);
    const std::lock_guard lock(mutex_);
    answers_.push_back(note);
    if (hears_) shards_.hear(note);
  }
  std::vector<std::string> errors() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> all;
    for (const Note& note : answers_) {
      if (note.text("error").ok()) all.push_back(*note.text("error"));
    }
    return all;
  }
  static Note part(int64_t upload, int64_t part, int64_t parts, size_t bytes = 3) {
    Note note(NoteKind::kShardPart);
    note.add("upload", upload).add("part", part).add("parts", parts).add("size", 9);
    note.add("replica", kOwn.replica.value).add("stage", kOwn.stage.value);
    note.body().resize(bytes);
    return note;
  }

  TemporaryFolder place_;
  MemoryStore store_;
  BentWire wire_;
  RemoteShards shards_{place_ / "own", "paris", wire_};
  std::mutex mutex_;
  std::vector<Note> answers_;
  bool hears_ = true;
  Uploads uploads_{place_ / "incoming", store_,
                   [this](ProcessId to, const Note& note) { answer(to, note); }};
};

TEST_F(RemoteShardsTest, AStateArrivesAsItWas) {
  constexpr int64_t kValues = 700'000;  // several parts
  const StageState state = state_of(kOwn, 12, kValues);
  const auto stored = shards_.store(state);
  ASSERT_TRUE(stored.ok()) << stored.error().message;
  ASSERT_EQ(store_.states.size(), 1U);
  EXPECT_EQ(store_.states[0].worker, kOwn);
  EXPECT_EQ(store_.states[0].update, 12);
  EXPECT_TRUE(at::equal(store_.states[0].weights, state.weights));
  ASSERT_EQ(store_.states[0].optimizer.buffers.size(), 1U);
  EXPECT_TRUE(
      at::equal(store_.states[0].optimizer.buffers[0].second, state.optimizer.buffers[0].second));
  EXPECT_EQ(store_.states[0].rounds, state.rounds);
  EXPECT_GT(answers_.size(), 5U) << "a word for each part, and one for the file";
  ASSERT_TRUE(shards_.store(state_of(kOwn, 14)).ok());
  EXPECT_EQ(store_.states.size(), 2U);
}

TEST_F(RemoteShardsTest, TheTwoNewestStayHere) {
  for (const int64_t update : {10, 20, 30, 40})
    ASSERT_TRUE(shards_.store(state_of(kOwn, update)).ok());
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(place_ / "own")) {
    files.push_back(file.path().filename().string().substr(0, 15));
  }
  std::ranges::sort(files);
  EXPECT_THAT(files, ElementsAre("update-00000030", "update-00000040"));
  ASSERT_NE(shards_.newest_of(kOwn), nullptr);
  EXPECT_EQ(shards_.newest_of(kOwn)->update, 40);
  EXPECT_EQ(shards_.newest_of({.replica = {0}, .stage = {0}}), nullptr);
}

TEST_F(RemoteShardsTest, ATornFileIsPassedOver) {
  for (const int64_t update : {10, 20}) ASSERT_TRUE(shards_.store(state_of(kOwn, update)).ok());
  for (const auto& file : std::filesystem::directory_iterator(place_ / "own")) {
    if (file.path().string().find("00000020") == std::string::npos) continue;
    std::filesystem::resize_file(file.path(), 100);
  }
  ASSERT_NE(shards_.newest_of(kOwn), nullptr);
  EXPECT_EQ(shards_.newest_of(kOwn)->update, 10);
}

TEST_F(RemoteShardsTest, APlaceOfSomebodyElseIsNotSaved) {
  const auto stored = shards_.store(state_of({.replica = {0}, .stage = {0}}, 12));
  ASSERT_FALSE(stored.ok());
  EXPECT_THAT(stored.error().message, HasSubstr("no such place"));
  EXPECT_TRUE(store_.states.empty());
}

TEST_F(RemoteShardsTest, AFileOfAnotherWorkerThanItSaysIsRefused) {
  wire_.sends = [this](Note note) {
    note.add("replica", kOwn.replica.value).add("stage", kOwn.stage.value);
    take(note);
  };
  const auto stored = shards_.store(state_of({.replica = {0}, .stage = {0}}, 12));
  ASSERT_FALSE(stored.ok());
  EXPECT_THAT(stored.error().message, HasSubstr("another worker"));
  EXPECT_TRUE(store_.states.empty());
}

TEST_F(RemoteShardsTest, ADamagedFileIsRefused) {
  wire_.sends = [this](Note note) {
    note.body()[0] ^= std::byte{0xff};
    take(note);
  };
  EXPECT_FALSE(shards_.store(state_of(kOwn, 12)).ok());
  EXPECT_TRUE(store_.states.empty());
}

TEST_F(RemoteShardsTest, AHostThatNeverAnswersIsAnErrorAfterAWhile) {
  wire_.sends = {};
  RemoteShards impatient(place_ / "own", "paris", wire_, kAWhile);
  const auto stored = impatient.store(state_of(kOwn, 12, 700'000));
  ASSERT_FALSE(stored.ok());
  EXPECT_THAT(stored.error().message, HasSubstr("does not take it"));
  hears_ = false;  // it takes the parts, and is not heard
  wire_.sends = [this](const Note& note) { take(note); };
  EXPECT_FALSE(impatient.store(state_of(kOwn, 13)).ok());
}

TEST_F(RemoteShardsTest, NothingIsSentToAHostThatIsSilent) {
  int64_t sent = 0;
  wire_.sends = [&](const Note& note) {
    ++sent;
    take(note);
  };
  shards_.set_host_heard(false);
  EXPECT_FALSE(shards_.store(state_of(kOwn, 12)).ok());
  EXPECT_EQ(sent, 0);
  ASSERT_NE(shards_.newest_of(kOwn), nullptr) << "it is on the own disk";
  std::filesystem::remove_all(place_ / "own");
  EXPECT_FALSE(shards_.store(state_of(kOwn, 12)).ok());
  EXPECT_EQ(shards_.newest_of(kOwn), nullptr) << "it is not written at every try";
  shards_.set_host_heard(true);
  EXPECT_TRUE(shards_.store(state_of(kOwn, 12)).ok());
  EXPECT_NE(shards_.newest_of(kOwn), nullptr);
}

TEST_F(RemoteShardsTest, AnErrorOfTheOwnDiskSaysWhereThatIs) {
  write_data(place_ / "own", "a file where the folder should be");
  const auto stored = shards_.store(state_of(kOwn, 12));
  ASSERT_FALSE(stored.ok());
  EXPECT_THAT(stored.error().message, HasSubstr(" on paris"));
}

TEST_F(RemoteShardsTest, NobodyWaitsAfterTheSession) {
  wire_.sends = [this](const Note&) { shards_.give_up("the session is over"); };
  const auto stored = shards_.store(state_of(kOwn, 12));
  ASSERT_FALSE(stored.ok());
  EXPECT_EQ(stored.error().message, "the session is over");
}

TEST_F(RemoteShardsTest, AnswersAboutAnotherFileAreNotBelieved) {
  RemoteShards impatient(place_ / "own", "paris", wire_, kAWhile);
  wire_.sends = [&](const Note&) {
    Note other(NoteKind::kShardStored);
    impatient.hear(other.add("upload", 99).add("file", "x").add("size", 1).add("hash", "0"));
    impatient.hear(Note(NoteKind::kShardStored));
  };
  EXPECT_FALSE(impatient.store(state_of(kOwn, 12)).ok());
}

TEST_F(RemoteShardsTest, PartsThatAreNotTheNextAreRefused) {
  hears_ = false;
  take(part(1, 0, 3));
  take(part(1, 2, 3));
  EXPECT_THAT(errors(), ElementsAre("a part that is not the next one"));
  take(part(1, 1, 3));
  EXPECT_EQ(errors().size(), 1U) << "what was given up has been said";
  take(part(2, 0, 0));
  take(part(3, 0, -1));
  EXPECT_EQ(errors().size(), 3U);
  take(part(4, 0, 2, static_cast<size_t>(kStatePartBytes) + 1));
  EXPECT_EQ(errors().size(), 4U);
  take(Note(NoteKind::kShardPart));
  take(part(5, -1, 2));
  EXPECT_EQ(errors().size(), 4U) << "parts of nothing";
}

TEST_F(RemoteShardsTest, AFileThatBeginsAgainReplacesTheFirst) {
  hears_ = false;
  take(part(1, 0, 3));
  take(part(2, 0, 3));
  take(part(1, 1, 3));
  EXPECT_TRUE(errors().empty());
  take(part(2, 1, 3));
  EXPECT_EQ(answers_.size(), 3U) << "two first parts and a second one";
  uploads_.forget(kGuest);
  take(part(2, 2, 3));
  EXPECT_EQ(answers_.size(), 3U);
  EXPECT_TRUE(std::filesystem::is_empty(place_ / "incoming"));
}

}  // namespace
}  // namespace leeway
