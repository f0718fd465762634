#include "drivers/sim/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "drivers/loop/turn.h"

namespace leeway::sim {

Simulation::Simulation(SimulationOptions options) : options_(std::move(options)) {}

Status Simulation::run(const Workers& workers, Recorder& recorder, ShardStore* shards) {
  LEEWAY_CHECK(seats_.empty(), "a simulation runs once");
  shards_ = shards;
  prepare(workers);
  coordinator_.emplace(seats_.front().worker->plan(), recorder);
  recorder.begun([wishes = wishes_](Ask wish) {
    const std::lock_guard lock(wishes->mutex);
    wishes->wishes.push_back(wish);
  });
  return run_until_nothing_is_left(recorder);
}

double Simulation::busy_share(WorkerId worker, const Window& window) const {
  LEEWAY_CHECK(window.begin < window.end, "the window is not empty");
  const auto length = static_cast<double>(window.length().count);
  return static_cast<double>(busy(worker).within(window).count) / length;
}

void Simulation::prepare(const Workers& workers) {
  mesh_ = mesh_of(workers);
  links_.emplace(mesh_, options_.links);
  pauses_.emplace(mesh_, options_.pauses);
  faults_.emplace(mesh_, options_.outages, options_.departures);
  planned_faults_.emplace(options_.planned, workers.front()->plan().first_update);
  checker_.emplace(mesh_, workers);
  const std::vector<StageCosts>& costs = options_.costs;
  LEEWAY_CHECK(costs.size() == workers.size() || std::ssize(costs) == mesh_.stages,
               "costs for every worker, or for every stage");
  seats_.resize(workers.size());
  for (size_t at = 0; at < workers.size(); ++at) {
    seats_[at].worker = workers[at].get();
    seats_[at].costs = costs[at % costs.size()];
    if (!options_.cores.empty()) seats_[at].host = options_.links.places.machine_of[at];
    touch(at);
  }
  for (const Departure& departure : options_.departures) {
    later(departure.at + options_.notice, Happening::kMissed, mesh_.index(departure.worker));
  }
  with_disk_.assign(workers.size(), false);
  for (const Return& back : options_.returns) {
    LEEWAY_CHECK(maker_, "somebody makes the workers that come back");
    with_disk_[mesh_.index(back.worker)] = back.with_disk;
    later(back.at, Happening::kReturned, mesh_.index(back.worker));
  }
  for (const Window& outage : options_.coordinator_outages) {
    later(outage.begin, Happening::kCoordinatorGone, 0);
    later(outage.end, Happening::kCoordinatorBack, 0);
  }
  for (const int64_t cores : options_.cores) {
    const auto all = static_cast<int64_t>(workers.size());
    hosts_.push_back({.free = cores == 0 ? all : cores, .waiting = {}});
  }
}

Status Simulation::run_until_nothing_is_left(Recorder& recorder) {
  while (true) {
    coordinate(recorder);
    start_touched();
    // Deadlines that no worker waits for do not count.
    if (agenda_.empty() || (agenda_.size() == reminders_ && all_over()) || stands_still()) break;
    LEEWAY_CHECK(agenda_.earliest() >= clock_.now(), "time never runs backwards");
    if (agenda_.earliest() == Nanos::max()) {
      return usage_error(
          "simulated time ran out after 292 years: raise the machines' flops or the links' "
          "bandwidth, or lower run.updates");
    }
    clock_.move_to(agenda_.earliest());
    while (!agenda_.empty() && agenda_.earliest() == clock_.now()) happen(agenda_.take(), recorder);
    if (coordinator_ && coordinator_->abandoned() && coordinator_->over()) return {};
  }
  const std::string waiting = who_waits();
  if (!waiting.empty() && options_.may_stand_still) return Error{waiting};
  LEEWAY_CHECK(waiting.empty(), waiting);
  const Membership table = newest_table();
  for (int64_t r = 0; r < mesh_.replicas; ++r) {
    if (!table.has({r}) || faults_->is_stranded({r}, clock_.now())) checker_->stranded({r});
  }
  for (const Seat& seat : seats_) {  // one that nobody has heard of before all were told
    const WorkerId id = seat.worker->id();
    if (seat.worker->incarnation() > table.incarnation(id)) checker_->stranded(id.replica);
  }
  checker_->ended();
  return {};
}

// A coordinator that was started again may have had no time to learn of it.
Membership Simulation::newest_table() const {
  Membership newest = coordinator_ ? coordinator_->table() : Membership(mesh_.replicas);
  for (const Seat& seat : seats_) {
    const Membership& table = seat.worker->table();
    if (table.number() > newest.number()) newest = table;
  }
  return newest;
}

// Whether the worker may start. If not, it is asked again when a core of its machine is free.
bool Simulation::takes_core(size_t at) {
  if (hosts_.empty()) return true;
  Host& host = hosts_[seats_[at].host];
  if (host.free > 0) return --host.free, true;
  host.waiting.push_back(at);
  return false;
}

void Simulation::give_core_back(size_t at) {
  if (hosts_.empty()) return;
  Host& host = hosts_[seats_[at].host];
  ++host.free;
  for (const size_t waiting : std::exchange(host.waiting, {})) touch(waiting);
}

void Simulation::start_touched() {
  for (const size_t at : touched_) {
    Seat& seat = seats_[at];
    seat.touched = false;
    if (seat.work || faults_->is_gone(at, clock_.now())) continue;
    const std::optional<Work> work = seat.worker->next();
    if (!work) continue;
    if (const auto awake_at = pauses_->awake_at(at, clock_.now())) {
      agenda_.enter(*awake_at, Happening::kAwake, at);
    } else if (takes_core(at)) {
      start(at, *work);
    }
  }
  touched_.clear();
}

void Simulation::start(size_t at, const Work& work) {
  Seat& seat = seats_[at];
  checker_->began(at, work, clock_.now());
  if (const Message* const answer = seat.worker->answer_of(work)) {
    checker_->applies(at, work, *answer, seat.worker->table().members());
  }
  seat.work = work;
  seat.begin = clock_.now();
  Outcome outcome = seat.worker->run(work);
  if (seat.worker->compute() != nullptr) {
    seat.outcome = std::make_unique<Outcome>(std::move(outcome));
  }
  const Nanos end = pauses_->work(at, seat.begin, seat.costs.of(work), seat.busy);
  seat.end = end;
  agenda_.enter(end, Happening::kFinished, at);
}

void Simulation::happen(const Agenda::Entry& entry, Recorder& recorder) {
  switch (entry.what) {
    case Happening::kFinished:
      return finish(entry.subject, recorder);
    case Happening::kArrived:
      return arrive(entry.subject, /*again=*/false);
    case Happening::kArrivedAgain:
      return arrive(entry.subject, /*again=*/true);
    case Happening::kAwake:
      return touch(entry.subject);
    case Happening::kStored:
      return finish_store(entry.subject, recorder);
    case Happening::kMissed:
      planned_happened();
      if (!faults_->is_gone(entry.subject, clock_.now())) return;  // it was back before that
      missed_.push_back(entry.subject);
      return tell_coordinator(
          lost_message(mesh_.id(entry.subject), seats_[entry.subject].worker->incarnation()));
    case Happening::kReturned:
      planned_happened();
      return fill_place(entry.subject, with_disk_[entry.subject]);
    case Happening::kCoordinatorGone:
      planned_happened();
      return coordinator_.reset();
    case Happening::kCoordinatorBack:
      planned_happened();
      coordinator_.emplace(seats_.front().worker->plan(), recorder, Coordinator::Start::kAgain);
      wishes_->repeat();
      for (const size_t at : missed_) {
        tell_coordinator(lost_message(mesh_.id(at), seats_[at].worker->incarnation()));
      }
      return;
  }
  LEEWAY_UNREACHABLE("all kinds of entries are above");
}

void Simulation::finish(size_t at, Recorder& recorder) {
  Seat& seat = seats_[at];
  const Work work = *std::exchange(seat.work, std::nullopt);
  give_core_back(at);
  if (faults_->is_gone(at, clock_.now())) return;
  if (work.kind != WorkKind::kReport) {
    note(at, work, seat.begin);
    if (work.kind != WorkKind::kTransfer) quiet_ = 0;
  }
  Outcome outcome;
  if (const auto computed = std::move(seat.outcome)) outcome = std::move(*computed);
  outcome.times = {.begin = seat.begin, .end = clock_.now()};
  seat.worker->finish(work, std::move(outcome), *this, recorder);
  const WorkerId worker = mesh_.id(at);
  if (work.kind == WorkKind::kUpdate && worker.stage.value == 0) {
    fail_as_planned(worker.replica, work.update);
  }
  touch(at);
}

void Simulation::later(Nanos at, Happening what, size_t subject) {
  ++reminders_;
  ++planned_;
  agenda_.enter(at, what, subject);
}

void Simulation::planned_happened() {
  --reminders_;
  --planned_;
  quiet_ = 0;
}

void Simulation::fail_as_planned(ReplicaId replica, int64_t update) {
  using Kind = PlannedFault::Kind;
  const Nanos noticed = clock_.now() + options_.notice;
  for (const PlannedFault& fault : planned_faults_->take_due(replica, update)) {
    if (fault.kind == Kind::kLose || fault.kind == Kind::kLeave) {
      lose(fault.replica, fault.kind == Kind::kLose ? noticed : clock_.now());
    } else if (fault.kind == Kind::kReturn) {
      for (int64_t s = 0; s < mesh_.stages; ++s) {
        const size_t at = mesh_.index({.replica = fault.replica, .stage = {s}});
        with_disk_[at] = fault.with_disk;
        later(clock_.now(), Happening::kReturned, at);
      }
    } else if (coordinator_) {
      later(clock_.now(), Happening::kCoordinatorGone, 0);
      later(noticed, Happening::kCoordinatorBack, 0);
    }
  }
}

void Simulation::lose(ReplicaId replica, Nanos noticed) {
  for (const Departure& departure : departures_of(mesh_, replica, clock_.now())) {
    faults_->depart(departure);
    later(noticed, Happening::kMissed, mesh_.index(departure.worker));
  }
}

// Once the core of the lost one is free.
void Simulation::fill_place(size_t at, bool with_disk) {
  Seat& seat = seats_[at];
  if (!faults_->is_gone(at, clock_.now())) return;  // it is not empty
  if (seat.work) return later(seat.end, Happening::kReturned, at);
  seat.outcome.reset();
  seat.storing = seat.waiting = nullptr;
  const WorkerId id = mesh_.id(at);
  const Entry entry = {
      .incarnation = seat.worker->incarnation() + 1,
      .own_state = with_disk && shards_ != nullptr ? shards_->newest_of(id) : nullptr};
  std::erase_if(later_workers_, [&](const auto& gone) { return gone.get() == seat.worker; });
  later_workers_.push_back(maker_(id, entry));
  seat.worker = later_workers_.back().get();
  faults_->come_back(id, clock_.now());
  std::erase(missed_, at);
  checker_->filled(at);
  touch(at);
}

bool Simulation::is_over(const Seat& seat) const {
  return seat.worker->over() || faults_->is_gone(mesh_.index(seat.worker->id()), clock_.now());
}

bool Simulation::all_over() const {
  // If everybody is lost, the coordinator has yet to hear of it.
  const bool told = coordinator_ && coordinator_->over();
  if (planned_ > 0 && !told &&
      std::ranges::none_of(seats_, [](const Seat& seat) { return seat.worker->over(); })) {
    return false;
  }
  return std::ranges::all_of(seats_, [this](const Seat& seat) { return is_over(seat); });
}

void Simulation::coordinate(Recorder& recorder) {
  if (!coordinator_) return;
  {
    const std::lock_guard lock(wishes_->mutex);
    for (const Ask wish : std::exchange(wishes_->wishes, {})) {
      wishes_->stop = wishes_->stop || wish == Ask::kStop;
      tell_coordinator(ask_message(seats_.front().worker->plan(), wish));
    }
  }
  while (take_turn(*coordinator_, *this)) {
  }
  // At once: virtual time has no threads, and a chore takes none of it.
  while (const std::optional<Recorder::Chore> chore = recorder.take_chore()) (*chore)()();
}

// Reminders alone, over and over: nobody can go on. A worker that was paused may have many due at
// once, so work and messages that are still on the way count.
bool Simulation::stands_still() const {
  return planned_ == 0 && agenda_.size() == reminders_ && quiet_ > 100 * (seats_.size() + 1);
}

void Simulation::touch(size_t at) {
  if (std::exchange(seats_[at].touched, true)) return;
  touched_.push_back(at);
}

void Simulation::note(size_t at, const Work& work, Nanos begin) {
  uint64_t replicas = 0;
  for (const ReplicaId replica : work.replicas) {
    replicas = replicas * ReplicaSet::kReplicasMax + static_cast<uint64_t>(replica.value) + 1;
  }
  const std::array<int64_t, 12> line = {static_cast<int64_t>(at),
                                        static_cast<int64_t>(work.kind),
                                        work.index,
                                        work.update,
                                        work.version,
                                        work.delay,
                                        work.position,
                                        static_cast<int64_t>(work.lane),
                                        work.chunk,
                                        static_cast<int64_t>(replicas),
                                        begin.count,
                                        clock_.now().count};
  digest_ = hash_bytes(std::as_bytes(std::span(line)), digest_);
}

std::string Simulation::who_waits() const {
  constexpr size_t kNamedMax = 8;
  std::string named;
  size_t waiting = 0;
  // Those that are done wait for the others, unless all are.
  const bool all_done = std::ranges::all_of(
      seats_, [this](const Seat& seat) { return is_over(seat) || seat.worker->done(); });
  for (const Seat& seat : seats_) {
    const bool waits = !is_over(seat) && (all_done || !seat.worker->done());
    if (!waits || ++waiting > kNamedMax) continue;
    const Counts& counts = seat.worker->counts();
    named += fmt::format("; replica {} stage {} after {} forwards, {} backwards, {} updates",
                         seat.worker->id().replica.value, seat.worker->id().stage.value,
                         counts.forwards, counts.backwards, counts.updates);
  }
  if (waiting == 0) return "";
  return fmt::format("deadlock: {} of {} workers wait forever{}", waiting, seats_.size(), named);
}

}  // namespace leeway::sim
