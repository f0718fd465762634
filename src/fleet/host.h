// The process that has the run: it hands out places, the recipe and who is where, and runs the
// coordinator. It is no part of the way that training data takes: workers talk to each other. To
// what is around a run (run/crew.h) it is a crew like any other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/result.h"
#include "config/recipe.h"
#include "events/event_log.h"
#include "fleet/data_facts.h"
#include "fleet/estranged.h"
#include "fleet/gate.h"
#include "fleet/kept_session.h"
#include "fleet/mail.h"
#include "fleet/places.h"
#include "fleet/session_order.h"
#include "fleet/uploads.h"
#include "fleet/wire.h"
#include "run/crew.h"
#include "run/mesh_model.h"

namespace leeway {

struct HostOptions {
  WireMaker wire;
  Recipe recipe;
  std::string recipe_text;  // what every process trains by
  Path folder;              // of the run
  const Clock& clock;
  std::function<void(const std::string& sentence)> said = {};
  std::function<bool()> interrupted = {};
  // Whether one with this key may stay, asked about once a second; none: whoever came may stay.
  std::function<bool(const std::string& key)> allowed = {};
  // The name that people have given to this key; empty: none.
  std::function<std::string(const std::string& key)> listed_as = {};
  // No place will be filled any more: a session that runs is abandoned.
  std::function<bool()> gave_up = {};
  // Somebody has gone, with places or without; for one that starts processes.
  std::function<void(const std::string& name)> gone = {};
  // Processes outlive this one: what they need to come back to the next one is kept. `returns`: an
  // earlier one may have left a session that goes on.
  bool keeps_session = false;
  bool returns = false;
  // With two that need and cannot hear each other.
  Nanos patience = {20'000'000'000};
};

class Host final : public Crew {
 public:
  static Result<std::unique_ptr<Host>> open(HostOptions options);
  ~Host() override;
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  bool refills() const override { return true; }
  // Waits for those that an earlier host had in a session.
  Result<std::optional<RunningSession>> running() override;
  // Waits until there are processes for all places, unless the session goes on.
  Status prepare(const SessionStart& start) override;
  Status run(Recorder& recorder, ShardStore& shards) override;
  const Clock& clock() const override { return options_.clock; }

  std::string address() const { return wire_->address(); }
  // After training: the log in the run's folder gets what the processes have logged. Returns what
  // is missing, in sentences.
  Result<std::vector<std::string>> merge_logs();
  // From any thread: the process of this name has ended.
  void note_ended(const std::string& name);
  // Everybody is told that the run is over, and why. Nothing is sent after it. `unfinished`: it may
  // go on later.
  void end(const std::string& reason, bool unfinished = false);

 private:
  // Longer than the limit for silence: they have to find out that this is another host, or that the
  // line is back.
  static constexpr Nanos kBackWithin = {20'000'000'000};

  explicit Host(HostOptions options);
  Status open_wire();
  Mesh mesh() const {
    return {.stages = options_.recipe.mesh.stages, .replicas = options_.recipe.mesh.replicas};
  }
  Status wait_for_places(std::unique_lock<std::mutex>& lock);
  Status begin_session(ShardStore& shards);
  void new_session();
  void end_session();
  void tell_lost_places();
  // What makes it a host that can be started again (host_return.cpp):
  void return_to_session();
  void go_on();
  void welcome_back(ProcessId process, const Note& note);
  void send_away(ProcessId process);
  void decide();
  void keep() const;
  Status open_audit();

  // On its own thread, which acts on what others say:
  void serve();
  void act_on(const News& news);
  void act_on_note(ProcessId from, const Note& note);
  void admit(ProcessId from, const Note& note);
  std::optional<std::string> why_not(const Note& join) const;
  void hear_ready(ProcessId from, const Note& note);
  void check_data(ProcessId process, const DataFacts& facts);
  void seat(ProcessId process);
  void part_with(ProcessId process, const std::string& why);
  void part_with_revoked();
  void part_with_estranged();
  bool suspects_its_line() const;
  void miss(ProcessId process);
  void note_heard(ProcessId process);
  void part_with_missed();
  void refuse(ProcessId process, const std::string& name, const std::string& reason);
  void send_state(ProcessId to, const Note& ask);
  void take_shard(ProcessId from, const Note& note);
  void take_log(ProcessId from, const Note& note);
  void note_unreachable(ProcessId from, const Note& note);
  void tell_directory();
  SessionOrder order_for(ProcessId process) const;
  void send(ProcessId to, const Note& note, TrafficClass traffic = TrafficClass::kControl);
  void say(const std::string& sentence) const;
  void audit(const char* what, ProcessId process, const std::string& why = {});
  std::string listed_as(const std::string& key) const;
  void audit_refusal(ProcessId process, const std::string& why);
  bool all_have_left() const;
  void forget_session();

  HostOptions options_;
  Mail mail_;
  std::unique_ptr<Wire> wire_;
  Gate gate_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Places places_;
  std::map<ProcessId, DataFacts> data_of_;  // of those that wait for the host to have read its own
  std::map<ProcessId, int64_t> left_;       // sessions that processes have left
  std::set<ProcessId> unlisted_;            // that may not stay, at the last look
  std::optional<Nanos> looked_at_;          // whether all may stay
  std::optional<SessionOrder> session_;     // the one that runs, or is about to
  bool in_session_ = false;                 // places are filled as they become empty
  Nanos session_begin_ = {};
  double session_began_ = 0;           // seconds since 1970
  Recorder::AskRun ask_;               // while it runs
  Nanos heard_at_ = {};                // of anything about logs, and who has left
  std::optional<DataFacts> data_;      // what the recipe's data is
  std::optional<SessionStart> start_;  // from prepare() to the end of the session
  uint64_t run_ = 0;
  int64_t sessions_ = 0;  // of this host, so far
  int64_t logged_ = 0;    // the newest, counted in the log of the run
  // A session of an earlier host, until it goes on here or is given up; and who is still to come.
  std::optional<KeptSession> returned_to_;
  std::set<ProcessId> awaited_;
  bool decided_ = false;           // whether it takes part in a session that somebody comes back to
  std::set<ProcessId> undecided_;  // who have come back before that
  Estranged estranged_;
  std::set<ProcessId> missed_;  // who fell silent when the own line may have been cut
  Nanos opened_at_ = {};
  std::map<ProcessId, std::string> trained_;  // names of all that have had places
  std::optional<MeshSize> mesh_size_;
  std::map<WorkerId, at::Tensor> states_;  // packed, while processes ask for them
  std::unique_ptr<Uploads> uploads_;
  std::optional<EventLog> audit_;
  std::vector<Event> early_audit_;           // before there is a folder for it
  std::map<std::string, int64_t> refusals_;  // how often
  std::set<ProcessId> incomplete_;           // logs, as people were told
  bool ended_ = false;

  std::thread thread_;
};

}  // namespace leeway
