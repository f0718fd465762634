// A guest in a session: its workers, their states, its log.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "fleet/guest_process.h"
#include "run/drivers.h"
#include "run/failure.h"
#include "run/mesh_model.h"
#include "run/process_log.h"
#include "worker/state_transfer.h"

namespace leeway {
namespace {

bool is_about_shards(const News& news) {
  if (news.kind != News::Kind::kNote || news.from != kHost) return false;
  const NoteKind kind = news.note->kind();
  return kind == NoteKind::kShardTaken || kind == NoteKind::kShardStored;
}

// What was saved in other sessions is of no use in this one.
void remove_others(const Path& states, const std::string& own) {
  std::vector<Path> others;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(states, ignored)) {
    if (entry.path().filename() != own) others.push_back(entry.path());
  }
  for (const Path& other : others) static_cast<void>(remove_tree(other));
}

}  // namespace

Status Guest::load_state(Worker& worker, int64_t session) {
  ByteWriter writer;
  for (int64_t part = 0, parts = 1; part < parts; ++part) {
    Note ask(NoteKind::kAskState);
    ask.add("session", session)
        .add("replica", worker.id().replica.value)
        .add("stage", worker.id().stage.value)
        .add("part", part);
    wire_->send(kHost, parcel_of(ask));
    LEEWAY_ASSIGN(const Note note, wait_for(NoteKind::kState, kHostBackWithin));
    LEEWAY_ASSIGN(parts, note.whole("parts"));
    writer.put_bytes(note.body());
  }
  std::vector<std::byte> bytes = writer.take();
  const at::Tensor packed = at::from_blob(bytes.data(), {std::ssize(bytes)}, at::kByte);
  LEEWAY_ASSIGN(const StageState state, unpack_state(packed));
  return worker.compute()->restore(state.weights, state.optimizer);
}

Result<Workers> Guest::make_workers(const SessionOrder& order, const MeshData& mesh,
                                    const RunPlan& plan, RemoteShards& shards) {
  Workers workers;
  Recipe recipe = loaded_->recipe;
  for (const Place& place : order.places) {
    if (!plan.mesh().contains(place.worker)) return Error{"a place that the recipe's mesh lacks"};
    Entry entry = {.incarnation = place.incarnation};
    if (entry.joins()) entry.own_state = shards.newest_of(place.worker);
    if (const auto& devices = options_.devices; !devices.empty()) {
      recipe.run.device = devices[std::min(workers.size(), devices.size() - 1)];
    }
    workers.push_back(make_worker(recipe, mesh, plan, place.worker, entry));
    if (entry.joins()) continue;
    if (order.has_state) LEEWAY_TRY(load_state(*workers.back(), order.number));
    if (order.evaluates_first) workers.back()->evaluate_first();
  }
  return workers;
}

Status Guest::train_safely(const SessionOrder& order) {
  try {
    return train(order);
  } catch (...) {
    return failure_of(std::current_exception(), loaded_->recipe, data_->vocabulary);
  }
}

Status Guest::train(const SessionOrder& order) {
  session_ = order.number;
  const Recipe& recipe = loaded_->recipe;
  const MeshData mesh = {.train = data_->train,
                         .valid = data_->valid ? &*data_->valid : nullptr,
                         .vocabulary = data_->vocabulary,
                         .shift = order.shift};
  RunPlan plan = make_plan(recipe, mesh);
  plan.first_update = order.first_update;
  plan.last_update = order.last_update;
  plan.run = order.run;
  plan.recipe = order.recipe;
  plan.starts = order.starts;
  const Nanos begin = options_.clock.now();
  const Path folder = options_.folder / hash_hex(order.run);
  const Path states = folder / "shards";
  remove_others(states, hash_hex(order.timeline));
  RemoteShards shards(states / hash_hex(order.timeline), options_.name, *wire_);
  gate_.expect(order.number);
  gate_.adopt(order.directory);
  wire_->adopt(order.directory);
  LEEWAY_ASSIGN(const Workers workers, make_workers(order, mesh, plan, shards));
  const Path log_folder = folder / fmt::format("process-{}", options_.self.value);
  LEEWAY_TRY(make_folder(log_folder));
  LEEWAY_ASSIGN(EventLog events,
                EventLog::open(log_folder / "events.jsonl", /*append=*/order.logged > 1));
  const double seconds = order.seconds + (options_.clock.now() - begin).seconds();
  ProcessLog log({.level = recipe.run.log,
                  .plan = plan,
                  .clock = options_.clock,
                  .seconds_before = seconds,
                  .warned = [this](const std::string& text) { say("warning: " + text); }},
                 std::move(events));
  std::vector<WorkerId> fills;
  for (const Place& place : order.places) {
    if (place.incarnation > 0) fills.push_back(place.worker);
  }
  log.joined(options_.self.value, order.logged, fills);
  Process process({.plan = plan,
                   .workers = pointers_to(workers),
                   .journal = log,
                   .clock = options_.clock,
                   .threads_per_worker = threads_per_worker(recipe),
                   .shards = &shards,
                   .router = gate_.open(order.number, plan)});
  gate_.attach(process);
  std::exception_ptr failure;
  trains_ = true;
  Status followed = follow(process, shards, failure);
  trains_ = false;
  gate_.close();
  log.flush();
  if (failure) std::rethrow_exception(failure);
  if (followed.ok() && !forgotten_ && !over_) send_log(log_folder);
  return followed;
}

// Before it says that it has left, in the same class: so the host has it by then.
void Guest::send_log(const Path& folder) {
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(folder, ignored)) {
    const Result<std::string> text = read_text(file.path());
    if (!text.ok()) continue;
    const std::span<const std::byte> bytes = std::as_bytes(std::span(*text));
    for (size_t begin = 0; begin < bytes.size(); begin += kStatePartBytes) {
      const auto part =
          bytes.subspan(begin, std::min<size_t>(kStatePartBytes, bytes.size() - begin));
      Note note(NoteKind::kLogPart);
      note.add("file", file.path().filename().string()).add("begin", static_cast<int64_t>(begin));
      note.body().assign(part.begin(), part.end());
      wire_->send(kHost, parcel_of(note, TrafficClass::kAveraging));
    }
  }
}

// The coordinator may end a session without a word to one that took a place just then.
bool Guest::session_is_over() const {
  return std::ranges::any_of(orders_, [this](const Note& note) {
    const Result<int64_t> session = note.whole("session");
    if (!session.ok()) return false;
    // One that begins another has ended this one.
    return note.kind() == NoteKind::kSession
               ? *session > session_
               : note.kind() == NoteKind::kSessionOver && *session >= session_;
  });
}

// Until those who live here have left the session. `failure`: what they throw.
Status Guest::follow(Process& process, RemoteShards& shards, std::exception_ptr& failure) {
  std::thread trains([&] {
    try {
      process.run();
    } catch (...) {
      failure = std::current_exception();
    }
    mail_.put({.kind = News::Kind::kWake});
  });
  Status status;
  bool leaves = false;
  int64_t turns = -1;
  Nanos moved_at = options_.clock.now();
  for (bool done = false; !done;) {
    const std::optional<News> news = mail_.take(kGuestLooksUp);
    const Nanos now = options_.clock.now();
    if (std::exchange(turns, process.turns()) != process.turns()) moved_at = now;
    // Training goes on without the host. When there is nothing left to do, only it can say so.
    const bool alone = !reached_ && now - std::max(moved_at, silent_since_) > kHostBackWithin;
    if (alone && status.ok()) {
      status =
          Error{fmt::format("{} is gone, and there is nothing left to do without it; start the "
                            "coordinator again, then join it",
                            options_.host_name)};
    }
    done = news && news->kind == News::Kind::kWake;
    if (news && is_about_shards(*news)) {
      shards.hear(*news->note);
    } else if (news && status.ok()) {
      status = heed(*news);
    }
    shards.set_host_heard(reached_);
    if (std::exchange(goes_on_, false)) {
      shards.start_over();
      for (const ProcessId lost : unheard_) tell_host_of(lost, NoteKind::kUnreachable);
    }
    const bool must_leave =
        forgotten_ || over_ || interrupted() || !status.ok() || session_is_over();
    if (must_leave && !std::exchange(leaves, true)) {
      shards.give_up("the session is over");
      gate_.leave();
    }
  }
  trains.join();
  return status;
}

}  // namespace leeway
