#include "fleet/gate.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/hash.h"

namespace leeway {
namespace {

// What has arrived is not sent again: as much as may be under way from one process.
constexpr size_t kEarlyBytesMax = size_t{16} << 30;

// One without content takes room too.
size_t cost_of(const Parcel& parcel) { return sizeof(Parcel) + parcel.bytes.size(); }

bool is_believed(const Message& message, ProcessId from, const Directory& directory) {
  if (from == kHost) return message.from == kCoordinator && message.kind != MessageKind::kAsk;
  return directory.may_speak(from, message.from, message.envelope.incarnation);
}

}  // namespace

uint64_t slot_of(const Message& message, const RunPlan& plan) {
  if (message.kind != MessageKind::kContribution) return 0;
  const auto lane = std::ranges::find(plan.lanes, message.lane, &LanePlan::lane);
  if (lane == plan.lanes.end() || lane->lag_backwards) return 0;
  const bool counts = !message.replicas.empty();
  const std::array<int64_t, 6> name = {message.from.replica.value,
                                       message.from.stage.value,
                                       message.to.replica.value,
                                       static_cast<int64_t>(message.lane),
                                       message.chunk,
                                       counts ? 1 : 0};
  return hash_bytes(std::as_bytes(std::span(name))) | 1;
}

void Gate::adopt(Directory directory) {
  const std::lock_guard lock(mutex_);
  if (directory.number >= directory_.number) directory_ = std::move(directory);
}

Directory Gate::directory() const {
  const std::lock_guard lock(mutex_);
  return directory_;
}

void Gate::expect(int64_t session) {
  const std::lock_guard lock(mutex_);
  session_ = session;
}

Router Gate::open(int64_t session, const RunPlan& plan) {
  courier_ = std::make_unique<Courier>(
      plan, [this, session, &plan](const Message& message, std::vector<std::byte> bytes) {
        carry(session, plan, message, std::move(bytes));
      });
  const std::lock_guard lock(mutex_);
  session_ = session;
  return [courier = courier_.get()](Message message) { courier->take(std::move(message)); };
}

void Gate::carry(int64_t session, const RunPlan& plan, const Message& message,
                 std::vector<std::byte> bytes) {
  std::optional<ProcessId> home = kHost;
  if (message.to != kCoordinator) {
    const std::lock_guard lock(mutex_);
    home = directory_.home_of(message.to);
  }
  if (!home) return;  // its place is empty: what is for it is lost
  send_(*home, {.kind = Parcel::Kind::kMesh,
                .traffic = class_of(message.kind),
                .session = session,
                .slot = slot_of(message, plan),
                .bytes = std::move(bytes)});
}

void Gate::attach(Process& process) {
  const std::lock_guard lock(mutex_);
  process_ = &process;
  early_bytes_ = 0;
  for (auto& [from, parcel] : std::exchange(early_, {})) {
    if (parcel.session == session_) deliver(from, parcel);
    if (parcel.session > session_) keep(from, std::move(parcel));
  }
}

void Gate::keep(ProcessId from, Parcel parcel) {
  early_bytes_ += cost_of(parcel);
  early_.emplace_back(from, std::move(parcel));
}

void Gate::close() {
  {
    const std::lock_guard lock(mutex_);
    process_ = nullptr;
  }
  courier_.reset();
}

void Gate::leave() {
  const std::lock_guard lock(mutex_);
  if (process_ != nullptr) process_->leave();
}

void Gate::lost(const Place& place) {
  const std::lock_guard lock(mutex_);
  if (process_ != nullptr) process_->lost(place.worker, place.incarnation);
}

void Gate::receive(ProcessId from, Parcel parcel) {
  const std::lock_guard lock(mutex_);
  if (parcel.session < session_) return;
  // Before it hears of its first session, a process knows neither its number nor who is in it: one
  // that has heard of it may be quicker. What it says is believed, or not, when it is delivered.
  const bool known = from == kHost || directory_.number == 0 || directory_.find(from) != nullptr;
  if (!known) {
    ++disbelieved_;
    return;
  }
  if (parcel.session == session_ && process_ != nullptr) return deliver(from, parcel);
  const bool next = parcel.session <= session_ + 1 || session_ == 0;
  if (next && early_bytes_ + cost_of(parcel) <= kEarlyBytesMax) keep(from, std::move(parcel));
}

void Gate::deliver(ProcessId from, const Parcel& parcel) {
  const bool taken = process_->receive(
      parcel.bytes, [&](const Message& message) { return is_believed(message, from, directory_); });
  disbelieved_ += taken ? 0 : 1;
}

int64_t Gate::disbelieved() const {
  const std::lock_guard lock(mutex_);
  return disbelieved_;
}

}  // namespace leeway
