// A driver with virtual time: one thread, no waiting. Workers run as they do everywhere else; when
// something happens is decided by the links, the costs and the pauses given here, and by nothing
// else, so that the same options give the same run, event for event.
//
// At each moment, first everything that happens at it is done (work finishes, messages arrive,
// pauses end); then the workers to which something happened, if they are free, start what is next
// for them. `run` is at the beginning of a piece of work, `finish` at its end: messages leave then.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "drivers/sim/agenda.h"
#include "drivers/sim/busy_intervals.h"
#include "drivers/sim/checker.h"
#include "drivers/sim/cost.h"
#include "drivers/sim/faults.h"
#include "drivers/sim/links.h"
#include "drivers/sim/mesh.h"
#include "drivers/sim/message_pool.h"
#include "drivers/sim/pauses.h"
#include "worker/driver.h"

namespace leeway::sim {

// What a payload counts for on the links, for meshes whose numbers stand for larger ones.
struct PayloadFactors {
  double hop = 1;         // activations and gradients
  double round = 1;       // contributions and answers
  double evaluation = 1;  // all that validation sends
};

struct SimulationOptions {
  // One per stage, the same in every replica; or one per worker, in their order.
  std::vector<StageCosts> costs;
  Links::Options links = {};
  std::vector<Pause> pauses = {};
  std::vector<LinkOutage> outages = {};
  std::vector<Departure> departures = {};
  // By machine of links.places: workers that can be at work at once; 0: all. Empty: all everywhere.
  std::vector<int64_t> cores = {};
  std::vector<PayloadFactors> payloads = {};  // by stage of the sender; empty: all 1
  // Departures may leave others waiting for ever: then run() ends and says so.
  bool may_stand_still = false;
};

class Simulation final : public Driver, private Outbox {
 public:
  explicit Simulation(SimulationOptions options);

  // Once. The workers are a whole mesh, replica after replica, stage after stage. When nothing more
  // can happen and a worker is not done, it is our bug: the program stops and says who waits,
  // unless the options allow it, and it is an error.
  // Replicas that have lost a worker for good are not waited for. What a worker's numbers throw
  // comes through.
  Status run(const Workers& workers, Recorder& recorder) override;
  const Clock& clock() const override { return clock_; }

  // After the run.
  const BusyIntervals& busy(WorkerId worker) const { return seats_[mesh_.index(worker)].busy; }
  // Of a window, to leave out the time in which a pipeline fills and drains.
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
  // What the simulation knows about a worker.
  struct Seat {
    Worker* worker = nullptr;
    StageCosts costs;
    std::optional<Work> work;  // what it is at
    Nanos begin;               // of that
    Outcome outcome;           // what it made of it
    BusyIntervals busy;
    bool touched = false;  // something happened to it: ask it what is next
    size_t host = 0;       // where there are any
  };
  // A machine whose workers share its cores.
  struct Host {
    int64_t free = 0;
    std::vector<size_t> waiting;  // workers that would start
  };

  void send(Message message) override;
  int64_t bytes_on_link(const Message& message) const;
  void remind(Message message, Nanos after) override;
  // Done, or not waited for.
  bool is_over(const Seat& seat) const;
  bool all_over() const;
  void prepare(const Workers& workers);
  Status run_until_nothing_is_left(Recorder& recorder);
  bool takes_core(size_t at);
  void give_core_back(size_t at);
  void start_touched();
  void start(size_t at, const Work& work);
  void happen(const Agenda::Entry& entry, Recorder& recorder);
  void finish(size_t at, Recorder& recorder);
  void arrive(size_t slot);
  void touch(size_t at);
  void tell_of_stop(size_t at);
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
  std::optional<Checker> checker_;
  std::vector<Seat> seats_;      // by worker
  std::vector<Host> hosts_;      // by machine; empty: every worker has its own
  std::vector<size_t> touched_;  // workers, in the order in which it happened
  size_t reminders_ = 0;         // on the agenda
  bool told_of_stop_ = false;
  uint64_t digest_ = 0;
};

}  // namespace leeway::sim
