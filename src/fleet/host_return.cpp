// How a host that is started again, or whose line was cut, finds the session that goes on without
// it: who is in it comes back, and nobody else gets a place before that is clear.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "config/differences.h"
#include "config/load.h"
#include "drivers/threads/wall_clock.h"
#include "drivers/zmq/address.h"
#include "fleet/host.h"

namespace leeway {
namespace {

constexpr Nanos kLooksAround = {50'000'000};

// Whether what was kept can be of this mesh.
bool fits(const KeptSession& kept, const Mesh& mesh) {
  std::set<WorkerId> filled;
  for (const Member& member : kept.order.directory.members) {
    for (const Place& place : member.places) {
      if (!mesh.contains(place.worker) || !filled.insert(place.worker).second) return false;
    }
  }
  return kept.times.size() == mesh.count() &&
         std::ranges::all_of(kept.times, [](int64_t times) { return times > 0; });
}

}  // namespace

void Host::return_to_session() {
  std::optional<KeptSession> kept = kept_session(options_.folder);
  if (!kept || !fits(*kept, mesh())) return;
  const Result<LoadedRecipe> begun = load_recipe(options_.folder / "config.toml", {});
  if (!begun.ok() || !differences(begun->recipe, options_.recipe).empty()) {
    return say(
        "the recipe has changed: processes that still train join again, and the run goes on from "
        "its newest checkpoint");
  }
  places_.restore(kept->order.directory, kept->times);
  gate_.adopt(places_.directory());
  for (const Member& member : places_.directory().members) awaited_.insert(member.id);
  session_ = kept->order;
  session_began_ = kept->began;
  sessions_ = kept->order.number;
  logged_ = kept->order.logged;
  trained_ = kept->trained;
  opened_at_ = options_.clock.now();
  returned_to_ = std::move(kept);
}

// On its own thread.
void Host::welcome_back(ProcessId process, const Note& note) {
  const Result<int64_t> session = note.whole("session");
  const bool known = places_.knows(process) && (returned_to_ || in_session_) && session.ok() &&
                     *session == sessions_;
  if (known) {
    awaited_.erase(process);
    audit("back", process);
    tell_directory();  // that it is heard; the rest when the session goes on
    if (in_session_) send(process, Note(NoteKind::kGoesOn));
  } else if (decided_) {
    send_away(process);
  } else {
    undecided_.insert(process);
  }
}

// It leaves the session that it is in, and may join.
void Host::send_away(ProcessId process) {
  audit_refusal(process, "it comes back to a session that is over, or from which it was taken");
  send(process, Note(NoteKind::kForgotten));
}

// Until then a mistake in the command line may end this host, and nobody has to go because of it.
void Host::decide() {
  decided_ = true;
  for (const ProcessId process : std::exchange(undecided_, {})) send_away(process);
}

Result<std::optional<RunningSession>> Host::running() {
  std::unique_lock lock(mutex_);
  if (!returned_to_) return std::optional<RunningSession>();
  const size_t processes = returned_to_->order.directory.members.size();
  if (!awaited_.empty()) {
    say(fmt::format("the run goes on without a coordinator: waiting for {} of its {} processes",
                    awaited_.size(), processes));
  }
  while (!awaited_.empty() && options_.clock.now() - opened_at_ < kBackWithin) {
    changed_.wait_for(lock, std::chrono::nanoseconds(kLooksAround.count));
    if (options_.interrupted && options_.interrupted()) {
      return stopped_error("stopped; the processes of the run go on without a coordinator");
    }
  }
  for (const ProcessId process : std::exchange(awaited_, {})) {
    part_with(process, "it has not come back");
  }
  const size_t back = places_.directory().members.size();
  if (back == 0) {
    say("nobody has come back: the run goes on from its newest checkpoint");
    returned_to_.reset();
    drop_kept_session(options_.folder);
    return std::optional<RunningSession>();
  }
  KeptSession kept = *returned_to_;
  say(fmt::format("{} of {} processes have come back, and the session goes on", back, processes));
  session_->seconds += std::max(0.0, threads::unix_seconds() - session_began_);
  session_began_ = threads::unix_seconds();
  return std::optional(RunningSession{.number = kept.order.logged,
                                      .shift = kept.order.shift,
                                      .seconds = session_->seconds,
                                      .before = std::move(kept.before),
                                      .first_update = kept.order.first_update,
                                      .last_update = kept.order.last_update,
                                      .run = kept.order.run,
                                      .recipe = kept.order.recipe,
                                      .starts = std::move(kept.order.starts)});
}

// What they had sent to the earlier host may be lost.
void Host::go_on() {
  returned_to_.reset();
  tell_directory();
  for (const Member& member : places_.directory().members) {
    send(member.id, Note(NoteKind::kGoesOn));
  }
  for (const ProcessId spare : places_.ready()) seat(spare);
}

// Nobody was heard a moment ago: its own line may be cut, while the others train on. For a while
// after that, who is back may not have got through yet. Processes that this one has started are on
// the same machine, and a run that is to stop does not wait.
bool Host::suspects_its_line() const {
  const bool stops = options_.interrupted && options_.interrupted();
  if (!options_.keeps_session || !in_session_ || stops) return false;
  const Nanos beat = {options_.recipe.network.heartbeat_ms * 1'000'000};
  const Nanos now = options_.clock.now();
  const Heard heard = wire_->heard();
  const bool hears_nobody = now - heard.at > beat * 2;  // there is a sign of life in every beat
  const bool is_back = heard.since.count > 0 && now - heard.since < std::max(kBackWithin, beat * 4);
  return hears_nobody || is_back;
}

// Nobody else could take its place either: so nothing is lost by waiting.
void Host::miss(ProcessId process) {
  if (!places_.knows(process)) return wire_->forget(process);
  if (missed_.empty()) {
    say("nobody is heard any more: the line of this machine may be cut; "
        "the others train on without it");
  }
  missed_.insert(process);
}

void Host::note_heard(ProcessId process) {
  if (missed_.erase(process) > 0 && missed_.empty()) say("all are heard again");
}

void Host::part_with_missed() {
  if (missed_.empty() || suspects_its_line()) return;
  for (const ProcessId process : std::exchange(missed_, {})) part_with(process, "it is silent");
}

void Host::keep() const {
  if (!options_.keeps_session || !in_session_ || !start_) return;
  SessionOrder order = *session_;
  order.directory = places_.directory();
  const Status kept =
      keep_session(options_.folder, {.order = std::move(order),
                                     .began = session_began_,
                                     .times = places_.times(),
                                     .trained = trained_,
                                     .before = start_->before,
                                     .address = zmq::readable_address(wire_->address())});
  if (kept.ok()) return;
  drop_kept_session(options_.folder);  // an older one would bring back who has gone
  say(fmt::format("warning: {}; if this coordinator dies, the run goes on from a checkpoint",
                  kept.error().message));
}

}  // namespace leeway
