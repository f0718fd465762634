#include "fleet/guest.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "fleet/data_facts.h"
#include "fleet/guest_process.h"
#include "run/device.h"
#include "run/recipe_data.h"
#include "run/training_run.h"

namespace leeway {

Status Guest::open() {
  LEEWAY_ASSIGN(wire_, options_.wire(handlers_for(mail_, [this](ProcessId from, Parcel parcel) {
    gate_.receive(from, std::move(parcel));
  })));
  return {};
}

// While it is tried further: it may be one that is about to end.
void Guest::say_it_closes_early() {
  if (std::exchange(closes_early_, true)) return;
  say(fmt::format(
      "warning: {} ends every connection during the handshake: probably --host-key is not the "
      "coordinator's public key, which it prints when it starts, or another program has that port; "
      "it is tried again",
      options_.host_name));
}

// What the host says that nobody waits for; the rest is kept for those who do.
Status Guest::heed_host(const Note& note) {
  note_reached();
  closes_early_ = false;
  switch (note.kind()) {
    case NoteKind::kDirectory: {
      LEEWAY_ASSIGN(const Directory directory, directory_from(note.facts()));
      gate_.adopt(directory);
      wire_->adopt(directory);
      return {};
    }
    case NoteKind::kRefused: {
      LEEWAY_ASSIGN(const std::string reason, note.text("reason"));
      return usage_error(fmt::format("{} refuses this process: {}", options_.host_name, reason));
    }
    case NoteKind::kForgotten:
      forgotten_ = true;
      return {};
    case NoteKind::kGoesOn:
      goes_on_ = true;
      return {};
    case NoteKind::kEnd:
      over_ = true;
      unfinished_ = note.has("unfinished", &nlohmann::json::is_boolean) &&
                    note.facts()["unfinished"].get<bool>();
      if (const auto reason = note.text("reason"); reason.ok()) say(*reason);
      return {};
    default:
      orders_.push_back(note);
      return {};
  }
}

Status Guest::heed(const News& news) {
  switch (news.kind) {
    case News::Kind::kNote:
      return news.from == kHost ? heed_host(*news.note) : Status();
    case News::Kind::kForgotten:
      if (news.from != kHost) return {};
      if (trains_) {
        ask_back();
      } else {
        forgotten_ = true;
      }
      return {};
    case News::Kind::kKeyRefused:
      if (news.from != kHost) return {};
      return usage_error(fmt::format(
          "{} does not let this process in: its allow-list has no line with this process's public "
          "key, or --host-key is not its key",
          options_.host_name));
    case News::Kind::kClosesEarly:
      if (news.from == kHost && !reached_) say_it_closes_early();
      return {};
    case News::Kind::kUnreachable:
      if (news.from != kHost) {
        miss(news.from);
      } else if (!closes_early_) {
        told_of_silence_ = true;
        say(fmt::format("{} does not answer; it is tried again", options_.host_name));
      }
      return {};
    case News::Kind::kSilent:
      if (news.from != kHost) {  // it may only be cut off from here
        miss(news.from);
      } else if (reached_) {
        reached_ = false;
        silent_since_ = options_.clock.now();
        say(fmt::format("{} is silent; training goes on without it", options_.host_name));
      }
      return {};
    case News::Kind::kRefused:  // why there is no connection yet
      if (!reached_ && news.text != std::exchange(refusal_, news.text)) say(news.text);
      return {};
    case News::Kind::kHeardAgain:
      if (news.from == kHost) {
        note_reached();
        return {};
      }
      unheard_.erase(news.from);
      tell_host_of(news.from, NoteKind::kReached);
      return {};
    default:
      return {};
  }
}

void Guest::note_reached() {
  const bool was_missed = silent_since_.count > 0 || told_of_silence_;
  if (!std::exchange(reached_, true) && was_missed) {
    say(fmt::format("{} {}", options_.host_name,
                    silent_since_.count > 0 ? "is back" : "answers now"));
  }
  told_of_silence_ = false;
}

// Whoever hosts the run is to know of it: the next one hears it again.
void Guest::miss(ProcessId process) {
  unheard_.insert(process);
  tell_host_of(process, NoteKind::kUnreachable);
}

void Guest::tell_host_of(ProcessId process, NoteKind kind) {
  Note note(kind);
  wire_->send(kHost, parcel_of(note.add("process", process.value)));
}

// The host has been started again, or has given the places of this process away: it says which.
void Guest::ask_back() {
  wire_->forget(kHost);
  wire_->adopt(gate_.directory());
  Note back(NoteKind::kBack);
  wire_->send(kHost, parcel_of(back.add("session", session_)));
}

// Fails if the host is not heard of for too long, or has refused this process.
Result<Note> Guest::wait_for(NoteKind kind, Nanos host_within) {
  const Nanos begin = options_.clock.now();
  while (!over_ && !forgotten_) {
    for (auto note = orders_.begin(); note != orders_.end(); ++note) {
      if (note->kind() != kind) continue;
      Note found = std::move(*note);
      orders_.erase(note);
      return found;
    }
    if (interrupted()) {
      wire_->send(kHost, parcel_of(Note(NoteKind::kGoes)));
      return stopped_error("stopped; the others go on without this process");
    }
    const std::optional<News> news = mail_.take(kGuestLooksUp);
    if (news) LEEWAY_TRY(heed(*news));
    if (!reached_ && options_.clock.now() - std::max(begin, silent_since_) > host_within) {
      return Error{fmt::format(
          "{} does not answer: {}", options_.host_name,
          closes_early_ ? "it ends every connection during the handshake; is --host-key the "
                          "coordinator's public key, and is that its port?"
                        : "is the coordinator running, and is that port open from here?")};
    }
  }
  return Error{over_ ? "the run is over" : "the coordinator does not know this process any more"};
}

Result<GuestEnd> Guest::run() {
  LEEWAY_TRY(open());
  const Status joined = join();
  Result<GuestEnd> end = joined.ok() ? take_places() : Result<GuestEnd>(joined.error());
  if (forgotten_) return GuestEnd::kForgotten;
  if (over_) return unfinished_ ? GuestEnd::kStopped : GuestEnd::kOver;
  return end;
}

Status Guest::join() {
  Note note(NoteKind::kJoin);
  const std::string listens = wire_->address();
  note.add("protocol", kFleetProtocol)
      .add("version", program_version())
      .add("name", options_.name)
      .add("workers", options_.workers)
      .add("host", options_.address)
      .add("listens", listens);
  wire_->send(kHost, parcel_of(note));
  LEEWAY_ASSIGN(const Note welcome, wait_for(NoteKind::kWelcome, options_.reach_within));
  LEEWAY_ASSIGN(const std::string recipe, welcome.text("recipe"));
  LEEWAY_TRY(open_data(recipe));
  Note ready(NoteKind::kReady);
  const DataFacts facts =
      data_facts(data_->train, data_->valid ? &*data_->valid : nullptr, data_->vocabulary);
  ready.add("vocabulary", facts.vocabulary).add("train", facts.train).add("valid", facts.valid);
  wire_->send(kHost, parcel_of(ready));
  return {};
}

Status Guest::open_data(const std::string& recipe_text) {
  std::vector<std::string> sets;
  const auto set = [&](const char* key, const std::string& value) {
    if (!value.empty()) sets.push_back(fmt::format("{}={}", key, value));
  };
  if (!options_.devices.empty()) {
    set("run.device", options_.devices.front());
    set("mesh.devices", "[]");
  }
  LEEWAY_ASSIGN(loaded_, parse_recipe(recipe_text, "the coordinator's recipe", sets));
  Recipe& recipe = loaded_->recipe;
  if (!options_.data.empty()) recipe.data.train = {options_.data};
  if (!options_.data.empty() || !options_.valid.empty()) {
    recipe.data.valid = options_.valid.empty() ? std::vector<std::string>()
                                               : std::vector<std::string>{options_.valid};
  }
  recipe.run.device = device_here(recipe.run);
  LEEWAY_TRY(check_device(recipe.run.device));
  for (const std::string& device : options_.devices) LEEWAY_TRY(check_device(device));
  for (const std::string& device : recipe.mesh.devices) LEEWAY_TRY(check_device(device));
  set_up_compute(recipe);
  wire_->shape(recipe.network);
  LEEWAY_ASSIGN(data_,
                open_dataset(data_spec(recipe), text_cache(options_.folder, options_.text_cache),
                             [this](uint64_t, uint64_t) { return !interrupted(); }));
  return check_enough(*data_, recipe);
}

Result<GuestEnd> Guest::take_places() {
  while (true) {
    LEEWAY_ASSIGN(const Note note, wait_for(NoteKind::kSession, kHostBackWithin));
    LEEWAY_ASSIGN(const SessionOrder order, session_order_from(note));
    LEEWAY_TRY(train_safely(order));
    if (over_) return GuestEnd::kOver;
    if (forgotten_) return GuestEnd::kForgotten;
    if (interrupted()) {  // after its log, in the same class
      wire_->send(kHost, parcel_of(Note(NoteKind::kGoes), TrafficClass::kAveraging));
      return stopped_error("stopped; the others go on without this process");
    }
    Note left(NoteKind::kLeft);
    left.add("session", order.number);
    std::erase_if(orders_, [&](const Note& old) {
      const Result<int64_t> session = old.whole("session");
      return old.kind() == NoteKind::kSessionOver && session.ok() && *session <= order.number;
    });
    wire_->send(kHost, parcel_of(left, TrafficClass::kAveraging));
  }
}

Result<GuestEnd> take_part(const GuestOptions& options) { return Guest(options).run(); }

}  // namespace leeway
