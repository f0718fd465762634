#include "drivers/sim/checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"

namespace leeway::sim {

Checker::Checker(const Mesh& mesh, const Workers& workers)
    : mesh_(mesh),
      flush_at_(static_cast<size_t>(mesh.replicas)),
      stranded_(static_cast<size_t>(mesh.replicas), false),
      epochs_(static_cast<size_t>(mesh.replicas), 0),
      rounds_(mesh, workers.front()->plan()),
      common_(mesh),
      run_updates_(workers.front()->plan().run_updates) {
  tracks_.reserve(workers.size());
  for (const auto& worker : workers) {
    const Counts& counts = worker->counts();
    LEEWAY_CHECK(counts.in_flight() == 0, "a session begins at a flush point");
    Track track{.schedule = worker->schedule(),
                .counts = counts,
                .flushed_at = counts.forwards,
                .claimed = counts.updates};
    track.versions.resize(static_cast<size_t>(track.schedule.warmup() + 1));
    tracks_.push_back(std::move(track));
  }
}

int64_t& Checker::Track::version(int64_t microbatch) {
  return versions[static_cast<size_t>(microbatch) % versions.size()];
}

// Synchronous schedules clip by the norm of the whole model. They are the ones without any delay.
bool Checker::sums_norms(ReplicaId replica) const {
  const WorkerId first = {.replica = replica, .stage = {0}};
  return mesh_.stages > 1 && tracks_[mesh_.index(first)].schedule.delay_max() == 0;
}

void Checker::use_messages(size_t worker, const Work& work) {
  const WorkerId id = mesh_.id(worker);
  const bool is_first = id.stage.value == 0;
  const bool is_last = id.stage.value == mesh_.stages - 1;
  const auto use = [&](MessageKind kind, int64_t count) {
    int64_t& unused = tracks_[worker].unused(kind);
    LEEWAY_CHECK(unused >= count, words(worker, work, "before what it needs has arrived"));
    unused -= count;
  };
  switch (work.kind) {
    case WorkKind::kForward:
      return is_first ? void() : use(MessageKind::kActivation, 1);
    case WorkKind::kBackward:
      return is_last ? void() : use(MessageKind::kGradient, 1);
    case WorkKind::kUpdate:
      if (!sums_norms(id.replica)) return;
      return is_first ? use(MessageKind::kNorms, mesh_.stages - 1)
                      : use(MessageKind::kTotalNorm, 1);
    case WorkKind::kEvaluate:
      return is_first ? void() : use(MessageKind::kEvaluation, 1);
    case WorkKind::kContribute:
      if (work.lane == Lane::kMain && !work.replicas.empty()) {
        common_.contributed(mesh_.id(worker), work.index, tracks_[worker].counts.backwards);
      }
      return;
    case WorkKind::kSave:
    case WorkKind::kReduce:
    case WorkKind::kMerge:
    case WorkKind::kAwait:
    case WorkKind::kRepeat:
    case WorkKind::kAdopt:
    case WorkKind::kTransfer:
    case WorkKind::kReport:
      return;
  }
  LEEWAY_UNREACHABLE("all kinds of work are above");
}

// One that has left, or is to begin anew, may not have heard of it: what it applies is nobody's.
void Checker::applies(size_t worker, const Work& work, const Message& answer,
                      const ReplicaSet& members) {
  const ReplicaId replica = mesh_.id(worker).replica;
  if (!tables_.empty()) {
    const Membership& newest = tables_.rbegin()->second;
    if (!newest.has(replica) || newest.epoch(replica) > tracks_[worker].epoch) return;
  }
  const std::string wrong = common_.applies(mesh_.id(worker), answer, members);
  LEEWAY_CHECK(wrong.empty(), wrong);
  if (answer.whole) return;
  const Counts& counts = tracks_[worker].counts;
  const auto lag = common_.lag(mesh_.id(worker), answer, counts.backwards);
  // After a change of members nobody waits.
  const std::string late = rounds_.merged_after(
      worker, work, {.updates = counts.updates, .backwards = counts.backwards}, lag,
      /*waits=*/tables_.empty());
  LEEWAY_CHECK(late.empty(), words(worker, work, late));
}

// A replica that restarts goes on as after a flush point at the update that the table names.
void Checker::adopt(size_t worker, const Work& work) {
  const auto found = tables_.find(work.index);
  LEEWAY_CHECK(found != tables_.end(), "a table comes from the coordinator");
  const ReplicaId replica = mesh_.id(worker).replica;
  Track& track = tracks_[worker];
  const Membership::Restart restart = found->second.restart(replica);
  const bool is_for_it = found->second.incarnation(mesh_.id(worker)) == track.incarnation;
  if (!found->second.has(replica) || restart.epoch <= track.epoch || !is_for_it) return;
  int64_t& epoch = epochs_[static_cast<size_t>(replica.value)];
  if (restart.epoch > std::exchange(epoch, restart.epoch)) {
    flush_at_[static_cast<size_t>(replica.value)].clear();
  }
  LEEWAY_CHECK(restart.update >= track.counts.updates, "a replica does not go back");
  const int64_t microbatches = restart.update * track.schedule.update_every();
  track.epoch = restart.epoch;
  track.counts = {.forwards = microbatches, .backwards = microbatches, .updates = restart.update};
  track.flushed_at = microbatches;
  track.flushes = 0;
  track.claimed = restart.update;
  track.inbox = track.early[restart.epoch];
  track.early.erase(track.early.begin(), track.early.upper_bound(restart.epoch));
  rounds_.restarted(worker, restart.update);
  common_.restarted(mesh_.id(worker));
}

void Checker::filled(size_t worker) {
  tracks_[worker].reports = 0;
  tracks_[worker].inbox = {};
  tracks_[worker].counts = {};
  tracks_[worker].evaluated_update = tracks_[worker].evaluated_batch = -1;
  ++tracks_[worker].incarnation;
  rounds_.restarted(worker, /*update=*/0);
}

void Checker::began(size_t worker, const Work& work, Nanos now) {
  Counts& counts = tracks_[worker].counts;
  if (work.kind == WorkKind::kAdopt) adopt(worker, work);
  use_messages(worker, work);
  const bool update_due = tracks_[worker].schedule.update_due(counts);
  const std::string wrong = rounds_.began(worker, work,
                                          {.updates = counts.updates,
                                           .backwards = counts.backwards,
                                           .update_due = update_due,
                                           .now = now});
  LEEWAY_CHECK(wrong.empty(), words(worker, work, wrong));
  switch (work.kind) {
    case WorkKind::kForward:
      return forward(worker, work);
    case WorkKind::kBackward:
      return backward(worker, work);
    case WorkKind::kUpdate:
      LEEWAY_CHECK(tracks_[worker].schedule.update_due(counts),
                   words(worker, work, "an update takes exactly K microbatches"));
      LEEWAY_CHECK(work.index == counts.updates + 1, words(worker, work, "updates are in order"));
      ++counts.updates;
      return;
    case WorkKind::kSave:
      LEEWAY_CHECK(work.index == counts.updates, words(worker, work, "the newest state is saved"));
      LEEWAY_CHECK(counts.in_flight() == 0, words(worker, work, "nothing in flight is ever saved"));
      return;
    case WorkKind::kEvaluate:
      return evaluation(worker, work);
    case WorkKind::kContribute:
    case WorkKind::kReduce:
    case WorkKind::kMerge:
    case WorkKind::kAwait:
    case WorkKind::kRepeat:
    case WorkKind::kAdopt:
    case WorkKind::kTransfer:
    case WorkKind::kReport:
      return;
  }
  LEEWAY_UNREACHABLE("all kinds of work are above");
}

void Checker::forward(size_t worker, const Work& work) {
  Track& track = tracks_[worker];
  Counts& counts = track.counts;
  LEEWAY_CHECK(work.index == counts.forwards, words(worker, work, "forwards: each once, in order"));
  LEEWAY_CHECK(counts.in_flight() <= track.schedule.warmup(),
               words(worker, work, "more than W_s + 1 in flight"));
  if (counts.in_flight() == 0 && track.schedule.warmup() > 0) note_flush(worker, work);
  const int64_t delay = track.schedule.expected_delay(work.index - track.flushed_at);
  LEEWAY_CHECK(work.delay == delay,
               words(worker, work, fmt::format("the formula gives {}", delay)));
  LEEWAY_CHECK(work.version == counts.updates, words(worker, work, "not the newest weights"));
  LEEWAY_CHECK(work.version + work.delay + 1 == work.update,
               words(worker, work, "version and delay do not add up to the update"));
  track.version(work.index) = work.version;
  ++counts.forwards;
}

// Where W_s > 0, a stage has nothing in flight before a forward only right after a flush point. The
// last stage (W_s = 0) never has, and needs no check: its delay is 0 either way.
void Checker::note_flush(size_t worker, const Work& work) {
  Track& track = tracks_[worker];
  LEEWAY_CHECK(track.counts.backwards == track.counts.updates * track.schedule.update_every(),
               words(worker, work, "a flush point in the middle of an update"));
  const WorkerId id = mesh_.id(worker);
  std::vector<int64_t>& shared = flush_at_[static_cast<size_t>(id.replica.value)];
  if (id.stage.value == 0) shared.push_back(work.index);
  LEEWAY_CHECK(track.flushes < shared.size() && shared[track.flushes] == work.index,
               words(worker, work, "a flush point that stage 0 did not have"));
  ++track.flushes;
  track.flushed_at = work.index;
}

void Checker::backward(size_t worker, const Work& work) {
  Track& track = tracks_[worker];
  Counts& counts = track.counts;
  LEEWAY_CHECK(work.index == counts.backwards,
               words(worker, work, "backwards: each once, in order"));
  LEEWAY_CHECK(counts.backwards < counts.forwards, words(worker, work, "without its forward"));
  LEEWAY_CHECK(work.version == track.version(work.index),
               words(worker, work, "not the weights of its forward"));
  LEEWAY_CHECK(work.version + work.delay == counts.updates,
               words(worker, work, "the gradient meets weights its delay does not allow"));
  ++counts.backwards;
}

void Checker::evaluation(size_t worker, const Work& work) {
  Track& track = tracks_[worker];
  const bool next_batch =
      work.update == track.evaluated_update && work.index == track.evaluated_batch + 1;
  const bool next_evaluation = work.update > track.evaluated_update && work.index == 0;
  LEEWAY_CHECK(next_batch || next_evaluation, words(worker, work, "evaluations are in order"));
  LEEWAY_CHECK(work.update <= track.counts.updates,
               words(worker, work, "weights that do not exist yet"));
  track.evaluated_update = work.update;
  track.evaluated_batch = work.index;
}

void Checker::sent(const Message& message) {
  stops_ = stops_ || message.envelope.ends > 0;
  ++messages_on_way_;
  bytes_on_way_ += message.payload_bytes;
}

void Checker::lost(const Message& message) {
  --messages_on_way_;
  bytes_on_way_ -= message.payload_bytes;
}

void Checker::received(const Message& message, Nanos now) {
  --messages_on_way_;
  bytes_on_way_ -= message.payload_bytes;
  received_again(message, now);
  Track& track = tracks_[mesh_.index(message.to)];
  const bool own = message.from.replica == message.to.replica;
  if (own && message.envelope.epoch < track.epoch) return;  // it drops it in a moment
  const bool early = own && message.envelope.epoch > track.epoch;
  auto& inbox = early ? track.early[message.envelope.epoch] : track.inbox;
  ++inbox[static_cast<size_t>(message.kind)];
}

void Checker::received_again(const Message& message, Nanos now) {
  const std::string wrong = rounds_.received(message, now);
  LEEWAY_CHECK(wrong.empty(), wrong);
}

void Checker::told(const Message& message) {
  if (message.kind == MessageKind::kReport) return reported(message);
  if (message.kind == MessageKind::kTable) {
    tables_.try_emplace(message.table->number(), *message.table);
    rounds_.know(*message.table);
  }
  if (message.kind != MessageKind::kHeard) return;
  const Track& track = tracks_[mesh_.index(message.to)];
  if (message.envelope.incarnation != track.incarnation) return;  // for one that is gone
  LEEWAY_CHECK(message.index <= track.reports,
               "the coordinator has heard a report that nobody made");
}

void Checker::reported(const Message& message) {
  Track& track = tracks_[mesh_.index(message.from)];
  LEEWAY_CHECK(message.index <= track.reports + 1, "a worker numbers its reports in order");
  const bool first_time = message.index > track.reports;
  track.reports = std::max(track.reports, message.index);
  int64_t claimed = 0;
  if (const auto* done = std::get_if<UpdateDone>(message.report.get())) {
    claimed = done->update;
    LEEWAY_CHECK(!first_time || claimed == track.claimed + 1, "each update is claimed once");
    if (first_time) track.claimed = claimed;
  } else if (const auto* finished = std::get_if<Finished>(message.report.get())) {
    claimed = finished->updates;
  } else if (const auto* present = std::get_if<Present>(message.report.get())) {
    claimed = present->updates;
  }
  LEEWAY_CHECK(claimed <= track.counts.updates, "a report claims an update that was not made");
}

void Checker::asked_for(const Message& deadline, Nanos after, Nanos now) {
  const std::string wrong = rounds_.asked_for(deadline, after, now);
  LEEWAY_CHECK(wrong.empty(), wrong);
}

void Checker::ended() const {
  LEEWAY_CHECK(messages_on_way_ == 0 && bytes_on_way_ == 0, "every message sent was received");
  std::vector<WorkerId> finished;
  for (size_t worker = 0; worker < tracks_.size(); ++worker) {
    const bool left = !stranded_[static_cast<size_t>(mesh_.id(worker).replica.value)];
    if (left && tracks_[worker].counts.updates == run_updates_) {
      finished.push_back(mesh_.id(worker));
    }
  }
  const std::string wrong = stops_ ? "" : common_.ended(finished);
  LEEWAY_CHECK(wrong.empty(), wrong);
  for (size_t worker = 0; worker < tracks_.size(); ++worker) {
    if (stranded_[static_cast<size_t>(mesh_.id(worker).replica.value)]) continue;
    const Counts& counts = tracks_[worker].counts;
    const WorkerId first = {.replica = mesh_.id(worker).replica, .stage = {0}};
    const int64_t every = tracks_[worker].schedule.update_every();
    LEEWAY_CHECK(counts == tracks_[mesh_.index(first)].counts,
                 "the stages of a replica end with the same counts");
    LEEWAY_CHECK(counts.in_flight() == 0, "each microbatch that went forward came back");
    LEEWAY_CHECK(counts.backwards == counts.updates * every, "each gradient went into an update");
    // An evaluation cut short by a stop request leaves its messages behind.
    for (const MessageKind kind : {MessageKind::kActivation, MessageKind::kGradient,
                                   MessageKind::kNorms, MessageKind::kTotalNorm}) {
      LEEWAY_CHECK(tracks_[worker].inbox[static_cast<size_t>(kind)] == 0,
                   fmt::format("replica {} stage {}: a message that no work used, of kind {}",
                               mesh_.id(worker).replica.value, mesh_.id(worker).stage.value,
                               static_cast<int>(kind)));
    }
  }
}

std::string Checker::words(size_t worker, const Work& work, std::string_view wrong) const {
  const WorkerId id = mesh_.id(worker);
  const Counts& counts = tracks_[worker].counts;
  std::string what = fmt::format("{} {}", work_kind_word(work.kind), work.index);
  if (is_of_round(work.kind)) {
    what += fmt::format(" chunk {} of lane {}", work.chunk, lane_word(work.lane));
  }
  return fmt::format(
      "replica {} stage {}: {} of update {}, version {}, delay {}, after {} forwards, {} "
      "backwards, {} updates: {}",
      id.replica.value, id.stage.value, what, work.update, work.version, work.delay,
      counts.forwards, counts.backwards, counts.updates, wrong);
}

}  // namespace leeway::sim
