// A whole fleet in one process: a host and its guests, with a wire in memory between them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "../../support/memory_wire.h"
#include "../../support/small_recipe.h"
#include "../../support/temporary_folder.h"
#include "config/print.h"
#include "drivers/threads/wall_clock.h"
#include "fleet/guest.h"
#include "fleet/host.h"
#include "fleet/mail.h"
#include "run/train.h"
#include "run/training_run.h"

namespace leeway {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr Nanos kMinutes = {300'000'000'000};
constexpr int64_t kCheckpointEvery = 100;
const std::vector<std::string> kEndless = {"run.updates=1000000", "run.checkpoint_every=100"};

std::string weights_hash(const TrainingSummary& summary) {
  return nlohmann::json::parse(summary.json)["weights_hash"].get<std::string>();
}

class FleetTest : public testing::Test {
 protected:
  FleetTest() { write_small_text(place_ / "text"); }
  ~FleetTest() override {
    if (host_) end_all();
  }

  void open(const std::vector<std::string>& sets = {}) {
    std::vector<std::string> all = {"run.driver=zmq"};
    all.insert(all.end(), sets.begin(), sets.end());
    loaded_ = *small_recipe(place_ / "text", all);
    auto host = Host::open({.wire = net_.wire(kHost),
                            .recipe = loaded_->recipe,
                            .recipe_text = print_recipe(*loaded_),
                            .folder = place_ / "run",
                            .clock = clock_,
                            .said =
                                [this](const std::string& sentence) {
                                  const std::lock_guard lock(mutex_);
                                  said_.push_back(sentence);
                                },
                            .interrupted = [this] { return late(); },
                            .allowed =
                                [this](const std::string& key) {
                                  const std::lock_guard lock(mutex_);
                                  return key != revoked_;
                                },
                            .keeps_session = keeps_session_,
                            .patience = patience_});
    ASSERT_TRUE(host.ok()) << host.error().message;
    host_ = std::move(*host);
  }

  bool late() const { return clock_.now() - begin_ > kMinutes; }

  // Its answer is `ends_` of its id, once it has ended.
  void start_guest(int64_t id, int64_t workers, const std::string& data = "") {
    net_.set_key({id}, "key " + std::to_string(id));
    guests_.emplace_back([=, this] {
      const Result<GuestEnd> end =
          take_part({.wire = net_.wire({id}),
                     .self = {id},
                     .host_name = "memory",
                     .name = "guest " + std::to_string(id),
                     .workers = workers,
                     .folder = place_.path() / ("guest-" + std::to_string(id)) / "run",
                     .data = data,
                     .text_cache = place_ / "cache",
                     .clock = clock_,
                     .interrupted = [this] { return late(); }});
      const std::lock_guard lock(mutex_);
      const bool over = end.ok() && *end == GuestEnd::kOver;
      ends_[id] = !end.ok() ? end.error().message : over ? "over" : "forgotten";
    });
  }
  // Once, on another thread: whoever observes a run holds it up.
  void act(std::function<void()> what) {
    if (!actor_.joinable()) actor_ = std::thread(std::move(what));
  }
  void end_all() {
    if (actor_.joinable()) actor_.join();
    host_->end("the run is over");
    for (std::thread& guest : guests_) guest.join();
    guests_.clear();
  }
  std::vector<std::string> said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }
  bool has_said(const std::string& words) {
    const std::vector<std::string> all = said();
    return std::ranges::any_of(all, [&](const std::string& sentence) {
      return sentence.find(words) != std::string::npos;
    });
  }
  bool has_ended(int64_t guest) {
    const std::lock_guard lock(mutex_);
    return ends_.contains(guest);
  }
  // Trains until this has come true, however many updates that takes; `disturb` is done once there
  // is a checkpoint.
  TrainingSummary train_until(const std::function<bool()>& come, std::function<void()> disturb) {
    TrainOptions options;
    std::function<void(Ask)> ask;
    options.observer.begun = [&](const std::function<void(Ask)>& way) { ask = way; };
    options.observer.noted = [&](const std::string& sentence) {
      const std::lock_guard lock(mutex_);
      said_.push_back(sentence);
    };
    options.observer.updated = [&](const UpdateReport& report, double) {
      if (report.update > kCheckpointEvery) act(disturb);
      if (come() || late()) ask(Ask::kStop);
    };
    const auto summary = train_all(options);
    EXPECT_TRUE(summary.ok() && !summary->finished);
    end_all();
    return summary.ok() ? *summary : TrainingSummary();
  }
  Result<TrainingSummary> train_all(TrainOptions options) {
    options.folder = place_ / "run";
    options.crew = host_.get();
    return train(*loaded_, options);
  }

  TemporaryFolder place_;
  const threads::WallClock clock_;
  const Nanos begin_ = clock_.now();
  MemoryNet net_;
  std::optional<LoadedRecipe> loaded_;
  std::unique_ptr<Host> host_;
  std::vector<std::thread> guests_;
  std::thread actor_;
  std::mutex mutex_;
  std::string revoked_ = "nobody's";
  Nanos patience_ = kMinutes;
  bool keeps_session_ = false;
  std::vector<std::string> said_;
  std::map<int64_t, std::string> ends_;
};

TEST_F(FleetTest, TrainsToTheBitsOfThreads) {
  open();
  start_guest(1, 1);
  start_guest(2, 3);
  const auto summary = train_all({});
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_TRUE(summary->finished);
  const auto missing = host_->merge_logs();
  ASSERT_TRUE(missing.ok()) << missing.error().message;
  EXPECT_TRUE(missing->empty());
  end_all();
  EXPECT_EQ(ends_[1], "over");
  EXPECT_EQ(ends_[2], "over");
  const auto threads = train(*small_recipe(place_ / "text"), {.folder = place_ / "threads"});
  ASSERT_TRUE(threads.ok()) << threads.error().message;
  EXPECT_EQ(weights_hash(*summary), weights_hash(*threads));
}

TEST_F(FleetTest, RegroupsWithASpareWhenOneIsLost) {
  open(kEndless);
  for (const int64_t id : {1, 2}) start_guest(id, 2);
  train_until([this] { return has_said("go on together from") && has_ended(1); },
              [this] {
                start_guest(3, 2);  // all places are taken
                net_.cut({1});
              });
  EXPECT_THAT(*read_text(place_ / "run/events.jsonl"), HasSubstr("\"event\":\"resumed\""));
  EXPECT_EQ(ends_[1], "forgotten");
  EXPECT_EQ(ends_[2], "over");
  EXPECT_EQ(ends_[3], "over");
  EXPECT_THAT(said(), Contains(HasSubstr("guest 1 is gone (it is silent)")));
}

// A coordinator on another machine than those who train: they go on, and are all still there.
TEST_F(FleetTest, WaitsForTheOthersIfItsOwnLineIsCut) {
  keeps_session_ = true;
  open(kEndless);
  for (const int64_t id : {1, 2}) start_guest(id, 2);
  train_until([this] { return has_said("all are heard again"); },
              [this] {
                net_.cut_host({{1}, {2}});
                while (!has_said("nobody is heard any more") && !late()) std::this_thread::yield();
                net_.mend_host({{1}, {2}}, clock_.now());
              });
  EXPECT_FALSE(has_said("is gone"));
  EXPECT_THAT(*read_text(place_ / "run/events.jsonl"), Not(HasSubstr("\"event\":\"members\"")));
  EXPECT_EQ(ends_[1], "over");
  EXPECT_EQ(ends_[2], "over");
}

TEST_F(FleetTest, PartsWithOneThatIsSilentWhileOthersAreHeard) {
  keeps_session_ = true;
  open(kEndless);
  for (const int64_t id : {1, 2}) start_guest(id, 2);
  train_until([this] { return has_said("takes the place") && has_ended(1); },
              [this] {
                start_guest(3, 2);
                net_.cut({1});
              });
  EXPECT_TRUE(has_said("guest 1 is gone (it is silent)"));
}

// Its machines have kept states of the first one: they are of other weights.
TEST_F(FleetTest, ARunOfTheSameNameHasStatesOfItsOwn) {
  const auto states_of = [this](int64_t guest) {
    std::set<std::string> sessions;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             place_.path() / ("guest-" + std::to_string(guest)))) {
      if (entry.path().parent_path().filename() == "shards")
        sessions.insert(entry.path().filename());
    }
    return sessions;
  };
  const auto train_once = [this] {
    open({"run.checkpoint_every=2"});
    for (const int64_t id : {1, 2}) start_guest(id, 2);
    const auto summary = train_all({});
    EXPECT_TRUE(summary.ok() && summary->finished);
    end_all();
    host_.reset();
  };
  train_once();
  const std::set<std::string> first = states_of(1);
  train_once();
  const std::set<std::string> second = states_of(1);
  EXPECT_EQ(first.size(), 1U);
  EXPECT_EQ(second.size(), 1U) << "what is of no use any more is gone";
  EXPECT_NE(first, second);
}

TEST_F(FleetTest, PartsWithOneOfTwoThatCannotHearEachOther) {
  patience_ = {200'000'000};
  open(kEndless);
  for (const int64_t id : {1, 2}) start_guest(id, 2);
  train_until([this] { return has_said("go on together from") && has_ended(2); },
              [this] {
                start_guest(3, 2);
                net_.estrange({1}, {2});
              });
  EXPECT_EQ(ends_[1], "over");
  EXPECT_EQ(ends_[2], "forgotten");
  EXPECT_EQ(ends_[3], "over");
  EXPECT_THAT(said(),
              Contains(HasSubstr("guest 2 is gone (it and others cannot reach each other)")));
}

TEST_F(FleetTest, PartsWithOneWhoseKeyIsRevoked) {
  open(kEndless);
  for (const int64_t id : {1, 2}) start_guest(id, 2);
  train_until([this] { return has_said("takes the place") && has_ended(2); },
              [this] {
                start_guest(3, 2);
                const std::lock_guard lock(mutex_);
                revoked_ = "key 2";
              });
  EXPECT_EQ(ends_[2], "forgotten");
  EXPECT_THAT(said(), Contains(HasSubstr("guest 2 is gone (its key is not allowed any more)")));
  const std::string audit = *read_text(place_ / "run/audit.jsonl");
  EXPECT_THAT(audit, HasSubstr("\"event\":\"revoked\""));
}

TEST_F(FleetTest, OtherDataIsRefusedWithTheDifference) {
  open();
  write_data(place_ / "other" / "0.txt", std::string(3000, 'x') + small_texts().back());
  start_guest(7, 1, (place_ / "other").string());
  start_guest(1, 2);
  start_guest(2, 2);
  const auto summary = train_all({});
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  end_all();
  EXPECT_THAT(ends_[7], HasSubstr("memory refuses this process: its training data is "));
  EXPECT_EQ(ends_[1], "over");
}

// Says one thing to the host, and waits for what it says to that.
class FleetStranger : public FleetTest {
 protected:
  std::string refusal_of(const Note& note, int64_t id) {
    Mail mail;
    auto wire = net_.wire({id})(handlers_for(mail, [](ProcessId, Parcel) {}));
    (*wire)->send(kHost, parcel_of(note));
    const std::optional<News> news = mail.take(kMinutes);
    (*wire)->close();
    if (!news || !news->note) return "nothing";
    if (news->note->kind() == NoteKind::kWelcome) return "welcome";
    return news->note->text("reason").ok() ? *news->note->text("reason") : "no reason";
  }
  static Note join(int64_t protocol, const std::string& version, int64_t workers) {
    Note note(NoteKind::kJoin);
    return note.add("protocol", protocol).add("version", version).add("workers", workers);
  }
};

TEST_F(FleetStranger, IsToldWhyItCannotTakePart) {
  open();
  const std::string version = program_version();
  EXPECT_EQ(refusal_of(join(kFleetProtocol, version, 4), 1), "welcome");
  EXPECT_THAT(refusal_of(join(kFleetProtocol + 1, version, 1), 2),
              HasSubstr("it speaks version 3 of the protocol, and this is version 2"));
  EXPECT_THAT(refusal_of(join(kFleetProtocol, "9.9", 1), 3),
              HasSubstr("it is leeway 9.9, and the coordinator is leeway " + version));
  EXPECT_THAT(refusal_of(join(kFleetProtocol, version, 5), 4),
              HasSubstr("it offers 5 workers, but the mesh has 4 places"));
  EXPECT_THAT(refusal_of(join(kFleetProtocol, version, 0), 5), HasSubstr("no worker"));
  EXPECT_THAT(refusal_of(Note(NoteKind::kJoin), 6), HasSubstr("version 0 of the protocol"));
}

TEST_F(FleetStranger, SaysWhatItWantsAndTheHostStays) {
  open();
  for (int kind = 0; kind < kNoteKinds; ++kind) {
    Note note(static_cast<NoteKind>(kind));
    note.add("file", "../../etc/passwd").add("begin", -1).add("part", 0).add("process", 1);
    auto wire = net_.wire({100 + kind})({});
    (*wire)->send(kHost, parcel_of(note));
  }
  EXPECT_EQ(refusal_of(join(kFleetProtocol, program_version(), 1), 1), "welcome");
}

}  // namespace
}  // namespace leeway
