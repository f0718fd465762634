// A driver with virtual time: one thread, no waiting. Workers run as they do everywhere else. Only
// the links, costs and pauses given here decide when something happens, so the same options give
// the same run, event for event.
//
// At each moment, everything due is done first (work finishes, messages arrive, pauses end). Then
// each worker to which something happened starts its next piece of work, if it is free. run() is
// called when the work begins, finish() when it ends: that is when messages leave.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "drivers/loop/planned_faults.h"
#include "drivers/sim/agenda.h"
#include "drivers/sim/busy_intervals.h"
#include "drivers/sim/checker.h"
#include "drivers/sim/cost.h"
#include "drivers/sim/faults.h"
#include "drivers/sim/links.h"
#include "drivers/sim/mesh.h"
#include "drivers/sim/message_pool.h"
#include "drivers/sim/pauses.h"
#include "worker/coordinator.h"
#include "worker/driver.h"

namespace leeway::sim {

// Multiplies payload sizes on the links, for small meshes that stand for larger ones.
struct PayloadFactors {
  double hop = 1;         // activations and gradients
  double round = 1;       // contributions and answers
  double evaluation = 1;  // everything that validation sends
};

struct SimulationOptions {
  // One per stage, the same in every replica; or one per worker, in mesh order.
  std::vector<StageCosts> costs;
  Links::Options links = {};
  std::vector<Pause> pauses = {};
  std::vector<LinkOutage> outages = {};
  std::vector<Departure> departures = {};
  std::vector<Return> returns = {};
  Nanos notice = {};  // from a departure until the coordinator hears of it
  std::vector<PlannedFault> planned = {};
  MessageFaults messages = {};
  Nanos save_time = {};  // from a worker's save until its state is on its own disk
  std::vector<Window> coordinator_outages = {};  // it is gone, and then another one takes over
  // By machine of links.places: how many workers can be busy at once; 0: all. Empty: no limits.
  std::vector<int64_t> cores = {};
  std::vector<PayloadFactors> payloads = {};  // by stage of the sender; empty: all 1
  // Departures may leave others waiting forever: then run() returns an error instead of aborting.
  bool may_stand_still = false;
};

class Simulation final : public Driver, private Outbox {
 public:
  explicit Simulation(SimulationOptions options);

  // Call once. The workers are a complete mesh, replica after replica, stage after stage. If
  // nothing more can happen and a worker is not done, that is our bug: the program stops and says
  // who waits, or returns an error where the options allow it. The end of virtual time is a usage
  // error. Replicas that have lost a worker for good are not waited for. Exceptions from a worker's
  // compute pass through.
  using Driver::run;
  Status run(const Workers& workers, Recorder& recorder, ShardStore* shards) override;
  const Clock& clock() const override { return clock_; }

  // After the run.
  const BusyIntervals& busy(WorkerId worker) const { return seats_[mesh_.index(worker)].busy; }
  // The window lets callers leave out the time in which a pipeline fills and drains.
  double busy_share(WorkerId worker, const Window& window) const;
  Window span() const { return {{0}, clock_.now()}; }
  std::vector<LinkStatistics> links() const { return links_->statistics(); }
  // A hash of every piece of work, in order, with its times.
  uint64_t digest() const { return digest_; }
  // Pieces of work that ended, messages that arrived, pauses that ended.
  uint64_t events() const { return agenda_.entered(); }

 private:
  class VirtualClock final : public Clock {
   public:
    Nanos now() const override { return now_; }
    void move_to(Nanos time) { now_ = time; }

   private:
    Nanos now_;
  };
  // What the user has asked for, from any thread.
  struct Wishes {
    std::mutex mutex;
    std::vector<Ask> wishes;
    bool stop = false;  // asked for before: a new coordinator has to hear of it
    void repeat() {
      const std::lock_guard lock(mutex);
      if (stop) wishes.push_back(Ask::kStop);
    }
  };
  // What the simulation knows about a worker.
  struct Seat {
    Worker* worker = nullptr;
    StageCosts costs;
    std::optional<Work> work;          // what it is doing now
    Nanos begin;                       // when that began
    Nanos end;                         // and when it ends
    std::unique_ptr<Outcome> outcome;  // what it computed; null: without compute, nothing
    BusyIntervals busy;
    std::shared_ptr<const StageState> storing;  // on its way to disk
    std::shared_ptr<const StageState> waiting;  // for that one
    bool touched = false;                       // something happened to it: ask it what is next
    size_t host = 0;                            // its machine, if hosts_ is not empty
  };
  // A machine whose workers share its cores.
  struct Host {
    int64_t free = 0;
    std::vector<size_t> waiting;  // workers that need a core to start
  };

  void send(Message message) override;
  int64_t bytes_on_link(const Message& message) const;
  void remind(Message message, Nanos after) override;
  void store(std::shared_ptr<const StageState> state) override;
  void begin_store(size_t at, std::shared_ptr<const StageState> state);
  void finish_store(size_t at, Recorder& recorder);
  void tell_stored(size_t at, Message message);
  void carry(Message message, Nanos arrival);
  void send_control(Message message);
  Nanos in_order(const Message& message, Nanos arrival);
  double dice();
  // The worker is done, or its replica is stranded and not waited for.
  bool is_over(const Seat& seat) const;
  bool all_over() const;
  Membership newest_table() const;
  void prepare(const Workers& workers);
  Status run_until_nothing_is_left(Recorder& recorder);
  bool takes_core(size_t at);
  void give_core_back(size_t at);
  void start_touched();
  void start(size_t at, const Work& work);
  void happen(const Agenda::Entry& entry, Recorder& recorder);
  void finish(size_t at, Recorder& recorder);
  void arrive(size_t slot, bool again);
  void check_arrival(const Message& message, bool gone, bool again);
  void tell_coordinator(const Message& message);
  void fail_as_planned(ReplicaId replica, int64_t update);
  void lose(ReplicaId replica, Nanos noticed);
  void fill_place(size_t at, bool with_disk);
  void later(Nanos at, Happening what, size_t subject);
  void planned_happened();
  void touch(size_t at);
  void coordinate(Recorder& recorder);
  bool stands_still() const;
  void note(size_t at, const Work& work, Nanos begin);
  std::string who_waits() const;

  SimulationOptions options_;
  VirtualClock clock_;
  Mesh mesh_;
  Agenda agenda_;
  MessagePool messages_;
  std::optional<Links> links_;
  std::optional<Pauses> pauses_;
  std::optional<Faults> faults_;
  std::optional<PlannedFaults> planned_faults_;
  std::optional<Checker> checker_;
  std::vector<Seat> seats_;      // by worker
  std::vector<Host> hosts_;      // by machine; empty: every worker has its own core
  std::vector<size_t> touched_;  // workers, in the order they were touched
  size_t reminders_ = 0;         // on the agenda: they alone keep nothing going
  size_t planned_ = 0;           // on the agenda: losses, and who takes over
  size_t quiet_ = 0;             // reminders since something else happened
  ShardStore* shards_ = nullptr;
  std::optional<Coordinator> coordinator_;
  std::shared_ptr<Wishes> wishes_ = std::make_shared<Wishes>();
  std::vector<size_t> missed_;   // workers that the coordinator was told are gone
  Workers later_workers_;        // that fill places again
  std::vector<bool> with_disk_;  // by worker: the next one in its place has its disk
  std::map<std::tuple<WorkerId, WorkerId, TrafficClass>, Nanos> last_arrivals_;
  using RoundPart = std::tuple<MessageKind, WorkerId, WorkerId, Lane, int64_t, int64_t>;
  std::set<RoundPart> refused_;  // round and chunk last
  uint64_t rolls_ = 0;
  uint64_t digest_ = 0;
};

}  // namespace leeway::sim
