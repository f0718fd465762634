#include "fleet/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <exception>
#include <span>
#include <utility>

#include "base/hash.h"
#include "drivers/threads/wall_clock.h"
#include "drivers/zmq/address.h"
#include "events/log_cursor.h"
#include "fleet/fleet_logs.h"

namespace leeway {
namespace {

constexpr Nanos kHostLooksUp = {100'000'000};
constexpr Nanos kTellEvery = {20'000'000'000};
constexpr Nanos kLeaveWithin = {20'000'000'000};

// Sessions that the log of a run has.
Result<int64_t> sessions_in(const Path& log) {
  if (!log_end(log)) return int64_t{0};
  LEEWAY_ASSIGN(LogCursor cursor, LogCursor::open(log));
  int64_t sessions = 0;
  while (!cursor.at_end()) {
    sessions = std::max(sessions, cursor.line().session);
    LEEWAY_TRY(cursor.advance());
  }
  return sessions;
}

}  // namespace

Host::Host(HostOptions options)
    : options_(std::move(options)),
      gate_([this](ProcessId to, Parcel parcel) { wire_->send(to, std::move(parcel)); }),
      places_(mesh()),
      estranged_(options_.patience) {}

Result<std::unique_ptr<Host>> Host::open(HostOptions options) {
  std::unique_ptr<Host> host(new Host(std::move(options)));
  if (host->options_.returns) host->return_to_session();
  LEEWAY_TRY(host->open_wire());
  host->thread_ = std::thread([at = host.get()] { at->serve(); });
  return host;
}

Status Host::open_wire() {
  LEEWAY_ASSIGN(wire_, options_.wire(handlers_for(mail_, [this](ProcessId from, Parcel parcel) {
    gate_.receive(from, std::move(parcel));
  })));
  wire_->shape(options_.recipe.network);
  if (returned_to_) wire_->adopt(places_.directory());
  return {};
}

Host::~Host() { end("the coordinator has stopped"); }

void Host::end(const std::string& reason, bool unfinished) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return;
    Note note(NoteKind::kEnd);
    note.add("reason", reason).add("unfinished", unfinished);
    for (const ProcessId process : places_.known()) {
      // Those of a session that this host has not taken over go on.
      if (!returned_to_) wire_->send(process, parcel_of(note));
    }
  }
  mail_.put({.kind = News::Kind::kWake});
  if (thread_.joinable()) thread_.join();
  if (wire_) wire_->close();
}

void Host::note_ended(const std::string& name) {
  mail_.put({.kind = News::Kind::kEnded, .text = name});
}

void Host::say(const std::string& sentence) const {
  if (options_.said) options_.said(sentence);
}

void Host::send(ProcessId to, const Note& note, TrafficClass traffic) {
  wire_->send(to, parcel_of(note, traffic));
}

Status Host::prepare(const SessionStart& start) {
  // A run that does not go on from a state begins its log anew.
  int64_t logged = start.goes_on ? logged_ : 1;
  if (start.state != nullptr) {
    LEEWAY_ASSIGN(const int64_t before, sessions_in(options_.folder / "events.jsonl"));
    logged = before + 1;
  }
  std::unique_lock lock(mutex_);
  decide();
  logged_ = logged;
  start_.emplace(start);
  run_ = start.plan.run;
  data_ = data_facts(start.data.train, start.data.valid, start.data.vocabulary);
  mesh_size_ = mesh_size(start.recipe, start.data.vocabulary);
  if (logged_ == 1 && !start.goes_on) trained_.clear();
  for (const auto& [process, facts] : std::exchange(data_of_, {})) check_data(process, facts);
  return start.goes_on ? Status() : wait_for_places(lock);
}

Status Host::wait_for_places(std::unique_lock<std::mutex>& lock) {
  std::optional<Nanos> told_at;
  while (places_.missing() > 0) {
    const Nanos now = options_.clock.now();
    if (!told_at || now - *told_at > kTellEvery) {
      told_at = now;
      say(fmt::format("{} of {} places are empty: waiting for processes that join at {}",
                      places_.missing(), mesh().count(), zmq::readable_address(wire_->address())));
    }
    changed_.wait_for(lock, std::chrono::nanoseconds(kHostLooksUp.count));
    const bool stops = options_.interrupted && options_.interrupted();
    if (stops || (options_.gave_up && options_.gave_up())) {
      start_.reset();
      return stopped_error("stopped before the session began; nothing is lost");
    }
  }
  return {};
}

SessionOrder Host::order_for(ProcessId process) const {
  SessionOrder order = *session_;
  order.seconds += (options_.clock.now() - session_begin_).seconds();
  order.directory = places_.directory();
  if (const Member* const member = places_.find(process)) order.places = member->places;
  return order;
}

Status Host::begin_session(ShardStore& shards) {
  const std::lock_guard lock(mutex_);
  LEEWAY_TRY(open_audit());
  uploads_ = std::make_unique<Uploads>(options_.folder / "checkpoints" / "incoming", shards,
                                       [this](ProcessId to, const Note& note) { send(to, note); });
  session_begin_ = options_.clock.now();
  left_.clear();
  in_session_ = true;
  start_->goes_on ? go_on() : new_session();
  return {};
}

// All who are there get their places.
void Host::new_session() {
  const RunPlan& plan = start_->plan;
  session_began_ = threads::unix_seconds();
  const std::array<uint64_t, 2> name = {plan.run, std::bit_cast<uint64_t>(session_began_)};
  session_ = {.number = sessions_,
              .logged = logged_,
              .seconds = start_->before.seconds,
              .shift = start_->data.shift,
              .evaluates_first = start_->evaluates_first,
              .has_state = start_->state != nullptr,
              .first_update = plan.first_update,
              .last_update = plan.last_update,
              .run = plan.run,
              .recipe = plan.recipe,
              .timeline = hash_bytes(std::as_bytes(std::span(name))),
              .starts = plan.starts};
  places_.begin_session();
  gate_.adopt(places_.directory());
  wire_->adopt(places_.directory());
  for (const Member& member : places_.directory().members) {
    trained_[member.id] = member.name;
    send(member.id, to_note(order_for(member.id)));
  }
  keep();
}

// One may have gone before the session began, or between the last look and now.
void Host::tell_lost_places() {
  for (size_t at = 0; at < mesh().count(); ++at) {
    const WorkerId worker = mesh().id(at);
    if (places_.directory().home_of(worker)) continue;
    gate_.lost({.worker = worker, .incarnation = places_.times()[at] - 1});
  }
}

bool Host::all_have_left() const {
  return std::ranges::all_of(places_.directory().members, [this](const Member& member) {
    const auto left = left_.find(member.id);
    return left != left_.end() && left->second >= sessions_;
  });
}

// Nobody gets a place any more. Those who have one send their logs and leave; one that does not,
// and is not heard of either, is not waited for.
void Host::end_session() {
  std::unique_lock lock(mutex_);
  in_session_ = false;
  ask_ = {};
  drop_kept_session(options_.folder);
  // One that took a place while the others ended may not have heard of it.
  Note over(NoteKind::kSessionOver);
  over.add("session", sessions_);
  for (const Member& member : places_.directory().members) send(member.id, over);
  heard_at_ = options_.clock.now();
  while (!all_have_left() && options_.clock.now() - heard_at_ < kLeaveWithin) {
    changed_.wait_for(lock, std::chrono::nanoseconds(kHostLooksUp.count));
  }
  forget_session();
}

// What the session referred to is gone when it has ended.
void Host::forget_session() {
  in_session_ = false;
  ask_ = {};
  start_.reset();
  states_.clear();
  uploads_.reset();
}

Status Host::run(Recorder& recorder, ShardStore& shards) {
  const RunPlan& plan = start_->plan;
  const bool goes_on = start_->goes_on;
  if (!goes_on) {
    const std::lock_guard lock(mutex_);
    ++sessions_;
  }
  Process process({.plan = plan,
                   .workers = {},
                   .journal = recorder,
                   .recorder = &recorder,
                   .coordinator = goes_on ? Coordinator::Start::kAgain : Coordinator::Start::kFresh,
                   .clock = options_.clock,
                   .shards = nullptr,
                   .router = gate_.open(sessions_, plan)});
  if (Status begun = begin_session(shards); !begun.ok()) {
    gate_.close();
    end_session();
    return begun;
  }
  gate_.attach(process);
  recorder.begun(process.asker());
  {
    const std::lock_guard lock(mutex_);
    ask_ = process.asker();
    tell_lost_places();
  }
  std::exception_ptr failure;
  try {
    process.run();
  } catch (...) {
    failure = std::current_exception();
  }
  gate_.close();
  end_session();
  if (failure) std::rethrow_exception(failure);
  return {};
}

Result<std::vector<std::string>> Host::merge_logs() {
  const std::lock_guard lock(mutex_);
  if (trained_.empty() || returned_to_) return std::vector<std::string>();
  return merge_fleet_logs(options_.folder, hash_hex(run_), trained_, logged_);
}

}  // namespace leeway
