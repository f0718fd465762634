// What the host does when others say something: on its own thread, with the lock held.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/hash.h"
#include "drivers/threads/wall_clock.h"
#include "fleet/fleet_logs.h"
#include "fleet/host.h"
#include "run/training_run.h"
#include "worker/state_transfer.h"

namespace leeway {
namespace {

constexpr Nanos kSecond = {1'000'000'000};
constexpr int64_t kLogBytesMax = int64_t{4} << 30;
constexpr size_t kEarlyAuditMax = 10'000;

// A process listens at a port of all its addresses; others need one of them.
std::string reachable(const std::string& listens, const std::string& host) {
  const size_t colon = listens.rfind(':');
  if (listens.empty() || colon == std::string::npos || host.empty()) return "";
  const bool ipv6 = host.find(':') != std::string::npos && host.front() != '[';
  return fmt::format("tcp://{}{}{}{}", ipv6 ? "[" : "", host, ipv6 ? "]" : "",
                     listens.substr(colon));
}

std::string text_or_empty(const Note& note, const char* name) {
  const Result<std::string> text = note.text(name);
  return text.ok() ? *text : "";
}

// It goes to a terminal.
std::string printable(std::string name) {
  constexpr size_t kNameMax = 64;
  std::erase_if(name, [](char letter) { return letter < ' ' || letter > '~'; });
  if (name.size() > kNameMax) name.resize(kNameMax);
  return name;
}

}  // namespace

void Host::audit(const char* what, ProcessId process, const std::string& why) {
  const Member* const member = places_.find(process);
  const std::optional<Stranger> stranger = wire_->stranger(process);
  Event event(what);
  event.add("time", threads::unix_seconds()).add("process", process.value);
  if (member != nullptr) event.add("name", member->name);
  const std::string key = stranger ? stranger->key : member != nullptr ? member->key : "";
  if (const std::string listed = listed_as(key); !listed.empty()) event.add("listed_as", listed);
  if (stranger) event.add("key", stranger->key).add("host", stranger->host);
  if (!why.empty()) event.add("why", why);
  if (!audit_) {
    if (early_audit_.size() < kEarlyAuditMax) early_audit_.push_back(event);
    return;
  }
  static_cast<void>(audit_->write(event));
  static_cast<void>(audit_->flush());
}

std::string Host::listed_as(const std::string& key) const {
  return options_.listed_as && !key.empty() ? options_.listed_as(key) : "";
}

// Anybody can make them: the first of a kind is written, then the second, the fourth, the eighth.
void Host::audit_refusal(ProcessId process, const std::string& why) {
  constexpr size_t kKindsMax = 1000;
  if (refusals_.size() >= kKindsMax && !refusals_.contains(why)) return;
  const int64_t count = ++refusals_[why];
  if (!std::has_single_bit(static_cast<uint64_t>(count))) return;
  audit("refused", process, count == 1 ? why : fmt::format("{} ({} times)", why, count));
}

// The run's folder is there from its first session on.
Status Host::open_audit() {
  if (audit_) return {};
  LEEWAY_ASSIGN(EventLog log, EventLog::open(options_.folder / "audit.jsonl", /*append=*/true));
  audit_.emplace(std::move(log));
  for (const Event& event : std::exchange(early_audit_, {})) {
    static_cast<void>(audit_->write(event));
  }
  static_cast<void>(audit_->flush());  // no session ends for want of it
  return {};
}

void Host::serve() {
  while (true) {
    const std::optional<News> news = mail_.take(kSecond);
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    if (news) act_on(*news);
    part_with_revoked();
    part_with_estranged();
    part_with_missed();
    if (ask_ && options_.gave_up && options_.gave_up()) ask_(Ask::kAbandon);
    changed_.notify_all();
  }
}

void Host::act_on(const News& news) {
  switch (news.kind) {
    case News::Kind::kNote:
      note_heard(news.from);
      return act_on_note(news.from, *news.note);
    case News::Kind::kHeardAgain:
      return note_heard(news.from);
    case News::Kind::kSilent:
      if (awaited_.contains(news.from)) return;  // it has yet to find this host
      return suspects_its_line() ? miss(news.from) : part_with(news.from, "it is silent");
    case News::Kind::kEnded:
      if (const auto process = places_.named(news.text)) part_with(*process, "it has ended");
      return;
    case News::Kind::kRefused:
      return audit_refusal(news.from, news.text);
    default:
      return;
  }
}

void Host::act_on_note(ProcessId from, const Note& note) {
  if (note.kind() == NoteKind::kJoin) return admit(from, note);
  if (note.kind() == NoteKind::kBack) return welcome_back(from, note);
  if (!places_.knows(from)) return;
  switch (note.kind()) {
    case NoteKind::kReady:
      return hear_ready(from, note);
    case NoteKind::kAskState:
      return send_state(from, note);
    case NoteKind::kShardPart:
      return take_shard(from, note);
    case NoteKind::kLogPart:
      return take_log(from, note);
    case NoteKind::kLeft:
      heard_at_ = options_.clock.now();
      if (const Result<int64_t> session = note.whole("session"); session.ok()) {
        left_[from] = *session;
      }
      return;
    case NoteKind::kGoes:
      return part_with(from, "it was stopped");
    case NoteKind::kUnreachable:
      return note_unreachable(from, note);
    case NoteKind::kReached:
      if (const Result<int64_t> process = note.whole("process"); process.ok()) {
        estranged_.heard(from, {*process});
      }
      return;
    default:
      return audit_refusal(from, "a note that only a host sends");
  }
}

// Why it cannot take part; none: it can.
std::optional<std::string> Host::why_not(const Note& join) const {
  const Result<int64_t> protocol = join.whole("protocol");
  const Result<int64_t> workers = join.whole("workers");
  const std::string version = text_or_empty(join, "version");
  if (!protocol.ok() || *protocol != kFleetProtocol) {
    return fmt::format("it speaks version {} of the protocol, and this is version {}",
                       protocol.ok() ? *protocol : 0, kFleetProtocol);
  }
  if (version != program_version()) {
    return fmt::format("it is leeway {}, and the coordinator is leeway {}; install the same one",
                       version, program_version());
  }
  const auto most = static_cast<int64_t>(mesh().count());
  if (!workers.ok() || *workers < 1) return "it offers no worker";
  if (*workers > most) {
    return fmt::format("it offers {} workers, but the mesh has {} places", *workers, most);
  }
  return std::nullopt;
}

void Host::admit(ProcessId from, const Note& note) {
  if (places_.knows(from)) return;  // it has said so before
  const std::optional<Stranger> stranger = wire_->stranger(from);
  std::string host = text_or_empty(note, "host");
  if (host.empty() && stranger) host = stranger->host;
  std::string name = printable(text_or_empty(note, "name"));
  if (name.empty()) name = fmt::format("process {}", from.value);
  if (const std::optional<std::string> why = why_not(note)) return refuse(from, name, *why);
  const std::string listed = stranger ? listed_as(stranger->key) : "";
  if (!listed.empty() && listed != name) name += fmt::format(" (listed as {})", listed);
  places_.join({.id = from,
                .name = std::move(name),
                .address = reachable(text_or_empty(note, "listens"), host),
                .key = stranger ? stranger->key : ""},
               *note.whole("workers"));
  audit("joined", from);
  Note welcome(NoteKind::kWelcome);
  send(from, welcome.add("recipe", options_.recipe_text));
}

void Host::refuse(ProcessId process, const std::string& name, const std::string& reason) {
  audit("refused", process, reason);
  say(fmt::format("refused {}: {}", name, reason));
  Note note(NoteKind::kRefused);
  send(process, note.add("reason", reason));
  places_.leave(process);
  data_of_.erase(process);
}

void Host::hear_ready(ProcessId from, const Note& note) {
  if (places_.is_ready(from)) return;  // it has said so before
  const Result<int64_t> vocabulary = note.whole("vocabulary");
  const DataFacts facts = {.train = text_or_empty(note, "train"),
                           .valid = text_or_empty(note, "valid"),
                           .vocabulary = vocabulary.ok() ? *vocabulary : 0};
  if (data_) return check_data(from, facts);
  data_of_[from] = facts;  // this process is still reading its own
}

// Stages that read other data would train another model.
void Host::check_data(ProcessId process, const DataFacts& facts) {
  const std::array<std::array<std::string, 3>, 3> both = {
      {{"training data", facts.train, data_->train},
       {"validation data", facts.valid, data_->valid},
       {"vocabulary", fmt::format("{}", facts.vocabulary), fmt::format("{}", data_->vocabulary)}}};
  for (const auto& [what, there, here] : both) {
    if (there == here) continue;
    return refuse(process, places_.find(process)->name,
                  fmt::format("its {} is {}, and the coordinator's {}; give it the same files with "
                              "--data",
                              what, there, here));
  }
  places_.set_ready(process);
  if (in_session_) seat(process);
}

void Host::seat(ProcessId process) {
  const std::vector<Place> places = places_.fill(process);
  if (places.empty()) return;
  const Member& member = *places_.find(process);
  for (const Place& place : places) {
    say(fmt::format("{} takes the place of replica {}, stage {}", member.name,
                    place.worker.replica.value, place.worker.stage.value));
  }
  trained_[process] = member.name;
  audit("seated", process);
  tell_directory();
  send(process, to_note(order_for(process)));
}

void Host::tell_directory() {
  const Directory& directory = places_.directory();
  gate_.adopt(directory);
  wire_->adopt(directory);
  Note note(NoteKind::kDirectory);
  note.facts() = to_json(directory);
  for (const Member& member : directory.members) send(member.id, note);
  keep();
}

void Host::part_with(ProcessId process, const std::string& why) {
  if (!places_.knows(process)) {
    wire_->forget(process);
    return;
  }
  const std::string name = places_.find(process)->name;
  audit("gone", process, why);
  if (uploads_) uploads_->forget(process);
  const std::vector<Place> places = places_.leave(process);
  data_of_.erase(process);
  awaited_.erase(process);
  estranged_.leave(process);
  missed_.erase(process);
  tell_directory();
  wire_->forget(process);
  if (in_session_) {
    for (const Place& place : places) {
      gate_.lost(place);
      say(fmt::format("{} is gone ({}): replica {}, stage {} is empty", name, why,
                      place.worker.replica.value, place.worker.stage.value));
    }
    for (const ProcessId spare : places_.ready()) seat(spare);
  }
  if (options_.gone) options_.gone(name);
}

// Not at the first look without it: its file may be half written just then.
void Host::part_with_revoked() {
  const Nanos now = options_.clock.now();
  if (!options_.allowed || (looked_at_ && now - *looked_at_ < kSecond)) return;
  looked_at_ = now;
  std::set<ProcessId> unlisted;
  for (const ProcessId process : places_.known()) {
    if (!options_.allowed(places_.find(process)->key)) unlisted.insert(process);
  }
  const std::set<ProcessId> before = std::exchange(unlisted_, unlisted);
  for (const ProcessId process : unlisted) {
    if (!before.contains(process)) continue;
    audit("revoked", process);
    part_with(process, "its key is not allowed any more");
  }
}

// They would wait for each other; another process may reach both.
void Host::part_with_estranged() {
  if (!in_session_ || suspects_its_line()) return;  // that they are together again is not heard
  if (const auto process = estranged_.to_part_with(places_.directory(), options_.clock.now())) {
    part_with(*process, "it and others cannot reach each other");
  }
}

void Host::send_state(ProcessId to, const Note& ask) {
  const Result<int64_t> replica = ask.whole("replica");
  const Result<int64_t> stage = ask.whole("stage");
  const Result<int64_t> part = ask.whole("part");
  if (!replica.ok() || !stage.ok() || !part.ok()) return;
  const WorkerId worker = {.replica = {*replica}, .stage = {*stage}};
  const Result<int64_t> session = ask.whole("session");
  const bool may = session.ok() && *session == sessions_ && start_ && start_->state != nullptr &&
                   mesh().contains(worker);
  if (!may || *part < 0) return audit_refusal(to, "it asks for a state that there is not");
  at::Tensor& packed = states_[worker];
  if (!packed.defined()) packed = pack_state(part_of(*start_->state, *mesh_size_, worker));
  const int64_t parts = state_parts(packed.numel());
  if (*part >= parts) return;
  const int64_t begin = *part * kStatePartBytes;
  const auto length = static_cast<size_t>(std::min(kStatePartBytes, packed.numel() - begin));
  const auto* const bytes = static_cast<const std::byte*>(packed.const_data_ptr()) + begin;
  Note note(NoteKind::kState);
  note.add("parts", parts);
  note.body().assign(bytes, bytes + length);
  if (*part + 1 == parts) states_.erase(worker);
  send(to, note, TrafficClass::kAveraging);
}

void Host::take_shard(ProcessId from, const Note& note) {
  if (!uploads_) return;
  uploads_->take(from, note, [&](WorkerId worker) {
    return mesh().contains(worker) && places_.directory().home_of(worker) == from;
  });
}

void Host::take_log(ProcessId from, const Note& note) {
  const Result<std::string> file = note.text("file");
  const Result<int64_t> begin = note.whole("begin");
  const bool sound = file.ok() && begin.ok() && file->starts_with("events.jsonl") &&
                     file->find('/') == std::string::npos && *begin >= 0 &&
                     *begin <= kLogBytesMax && trained_.contains(from);
  if (!sound) return audit_refusal(from, "part of a log that is none");
  heard_at_ = options_.clock.now();
  if (const Status taken = store_log_part(options_.folder, from, *file, *begin, note.body());
      !taken.ok() && incomplete_.insert(from).second) {
    say(fmt::format("warning: the log of {} is incomplete: {}", places_.find(from)->name,
                    taken.error().message));
  }
}

void Host::note_unreachable(ProcessId from, const Note& note) {
  const Result<int64_t> process = note.whole("process");
  const Member* const to = process.ok() ? places_.find({*process}) : nullptr;
  if (to == nullptr) return;
  audit("unreachable", from, fmt::format("{} at {}", to->name, to->address));
  estranged_.lost(from, to->id, options_.clock.now());
  if (places_.turn_around(from, to->id)) return tell_directory();
  say(fmt::format(
      "warning: {} and {} cannot reach each other ({} at {}); open one of their ports, or "
      "start one of them with --address",
      places_.find(from)->name, to->name, to->name, to->address));
}

}  // namespace leeway
