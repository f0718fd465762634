#include "drivers/sim/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace leeway::sim {

Simulation::Simulation(SimulationOptions options) : options_(std::move(options)) {}

Status Simulation::run(const Workers& workers, Recorder& recorder) {
  LEEWAY_CHECK(seats_.empty(), "a simulation runs once");
  prepare(workers);
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
  for (const int64_t cores : options_.cores) {
    const auto all = static_cast<int64_t>(workers.size());
    hosts_.push_back({.free = cores == 0 ? all : cores, .waiting = {}});
  }
}

Status Simulation::run_until_nothing_is_left(Recorder& recorder) {
  while (true) {
    start_touched();
    // Deadlines that no worker waits for do not count.
    if (agenda_.empty() || (agenda_.size() == reminders_ && all_over())) break;
    LEEWAY_CHECK(agenda_.earliest() >= clock_.now(), "time never runs backwards");
    if (agenda_.earliest() == Nanos::max()) {
      return usage_error(
          "simulated time ran out after 292 years: raise the machines' flops or the links' "
          "bandwidth, or lower run.updates");
    }
    clock_.move_to(agenda_.earliest());
    while (!agenda_.empty() && agenda_.earliest() == clock_.now()) happen(agenda_.take(), recorder);
    if (recorder.abandoned()) return {};
  }
  const std::string waiting = who_waits();
  if (!waiting.empty() && options_.may_stand_still) return Error{waiting};
  LEEWAY_CHECK(waiting.empty(), waiting);
  for (int64_t r = 0; r < mesh_.replicas; ++r) {
    if (faults_->is_stranded({r}, clock_.now())) checker_->stranded({r});
  }
  checker_->ended();
  return {};
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
  seat.work = work;
  seat.begin = clock_.now();
  seat.outcome = seat.worker->run(work);
  const Nanos end = pauses_->work(at, seat.begin, seat.costs.of(work.kind), seat.busy);
  agenda_.enter(end, Happening::kFinished, at);
}

void Simulation::happen(const Agenda::Entry& entry, Recorder& recorder) {
  switch (entry.what) {
    case Happening::kFinished:
      return finish(entry.subject, recorder);
    case Happening::kArrived:
      return arrive(entry.subject);
    case Happening::kAwake:
      return touch(entry.subject);
  }
  LEEWAY_UNREACHABLE("all kinds of entries are above");
}

void Simulation::finish(size_t at, Recorder& recorder) {
  if (faults_->is_gone(at, clock_.now())) return;
  Seat& seat = seats_[at];
  const Work work = *std::exchange(seat.work, std::nullopt);
  give_core_back(at);
  note(at, work, seat.begin);
  if (hears_requests(*seat.worker, work)) tell_of_requests(at, work, recorder);
  seat.outcome.times = {.begin = seat.begin, .end = clock_.now()};
  seat.worker->finish(work, std::exchange(seat.outcome, {}), *this, recorder);
  touch(at);
}

void Simulation::send(Message message) {
  checker_->sent(message);
  const Nanos arrival =
      links_->send(message.from, message.to, bytes_on_link(message), clock_.now());
  if (faults_->is_lost(message.from, message.to, clock_.now())) return checker_->lost(message);
  agenda_.enter(arrival, Happening::kArrived, messages_.put(std::move(message)));
}

int64_t Simulation::bytes_on_link(const Message& message) const {
  if (options_.payloads.empty()) return message.payload_bytes;
  const PayloadFactors& factors = options_.payloads[static_cast<size_t>(message.from.stage.value)];
  const bool hop =
      message.kind == MessageKind::kActivation || message.kind == MessageKind::kGradient;
  const bool round =
      message.kind == MessageKind::kContribution || message.kind == MessageKind::kAnswer;
  const bool evaluation =
      message.kind == MessageKind::kEvaluation || message.lane == Lane::kEvaluation;
  const double factor = evaluation ? factors.evaluation
                        : hop      ? factors.hop
                        : round    ? factors.round
                                   : 1;
  return std::llround(static_cast<double>(message.payload_bytes) * factor);
}

void Simulation::remind(Message message, Nanos after) {
  ++reminders_;
  agenda_.enter(clock_.now() + after, Happening::kArrived, messages_.put(std::move(message)));
}

bool Simulation::is_over(const Seat& seat) const {
  return seat.worker->done() || faults_->is_stranded(seat.worker->id().replica, clock_.now());
}

bool Simulation::all_over() const {
  return std::ranges::all_of(seats_, [this](const Seat& seat) { return is_over(seat); });
}

void Simulation::arrive(size_t slot) {
  Message message = messages_.take(slot);
  const size_t to = mesh_.index(message.to);
  const bool gone = faults_->is_gone(to, clock_.now());
  if (message.kind == MessageKind::kDeadline) {
    --reminders_;
  } else if (gone) {
    checker_->lost(message);
  } else {
    checker_->received(message, clock_.now());
  }
  if (gone) return;
  seats_[to].worker->deliver(std::move(message));
  touch(to);
}

void Simulation::touch(size_t at) {
  if (std::exchange(seats_[at].touched, true)) return;
  touched_.push_back(at);
}

// Not over a link: the request comes from the user of the simulation. One replica is told, and
// tells the others.
void Simulation::tell_of_requests(size_t at, const Work& work, const Recorder& recorder) {
  Worker& worker = *seats_[at].worker;
  if (recorder.stop_wanted() && !std::exchange(told_of_stop_, true))
    worker.deliver({.kind = MessageKind::kStop, .from = worker.id(), .to = worker.id()});
  if (work.kind != WorkKind::kUpdate) return;  // a replica that is trained names no save
  const int64_t saves = recorder.saves_wanted();
  if (std::exchange(told_of_saves_, saves) < saves)
    worker.deliver({.kind = MessageKind::kSave, .from = worker.id(), .to = worker.id()});
}

void Simulation::note(size_t at, const Work& work, Nanos begin) {
  uint64_t replicas = 0;
  for (const ReplicaId replica : work.replicas.members()) {
    replicas = replicas * ReplicaSet::kReplicasMax + static_cast<uint64_t>(replica.value) + 1;
  }
  const std::array<int64_t, 11> line = {static_cast<int64_t>(at),
                                        static_cast<int64_t>(work.kind),
                                        work.index,
                                        work.update,
                                        work.version,
                                        work.delay,
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
  for (const Seat& seat : seats_) {
    if (is_over(seat) || ++waiting > kNamedMax) continue;
    const Counts& counts = seat.worker->counts();
    named += fmt::format("; replica {} stage {} after {} forwards, {} backwards, {} updates",
                         seat.worker->id().replica.value, seat.worker->id().stage.value,
                         counts.forwards, counts.backwards, counts.updates);
  }
  if (waiting == 0) return "";
  return fmt::format("deadlock: {} of {} workers wait forever{}", waiting, seats_.size(), named);
}

}  // namespace leeway::sim
