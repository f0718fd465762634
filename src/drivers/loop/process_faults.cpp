// How a process loses workers and its coordinator on purpose, and fills their places: what happens
// to a mesh of machines when some of them are lost, without any being lost.
#include <utility>

#include "base/check.h"
#include "drivers/loop/process.h"

namespace leeway {

// On the thread of this replica's stage 0.
void Process::fail_as_planned(ReplicaId replica, int64_t updates) {
  using Kind = PlannedFault::Kind;
  const std::lock_guard lock(faults_mutex_);
  for (const PlannedFault& fault : planned_.take_due(replica, updates)) {
    if (fault.kind == Kind::kCoordinatorLost) {
      coordinator_goes_ = true;
      mailboxes_.at(kCoordinator)->wake();
      continue;
    }
    for (int64_t stage = 0; stage < options_.plan.shape.stages; ++stage) {
      const WorkerId worker = {.replica = fault.replica, .stage = {stage}};
      fault.kind == Kind::kReturn ? fill(worker, fault.with_disk) : lose(worker);
    }
  }
}

void Process::lose(WorkerId worker) {
  vacancies_.try_emplace(worker);
  mailboxes_.at(worker)->wake();
}

// On the disk's thread: nothing of the lost one is being written then.
void Process::fill(WorkerId worker, bool with_disk) {
  background_->run([this, worker, with_disk] {
    shards_->forget(worker);
    const bool reads = with_disk && options_.shards != nullptr;
    std::shared_ptr<const StageState> own_state =
        reads ? options_.shards->newest_of(worker) : nullptr;
    const std::lock_guard lock(faults_mutex_);
    Vacancy& vacancy = vacancies_.at(worker);
    vacancy.filled = true;
    vacancy.own_state = std::move(own_state);
    mailboxes_.at(worker)->wake();
  });
}

bool Process::must_go(WorkerId worker) {
  if (options_.planned.empty()) return false;
  const std::lock_guard lock(faults_mutex_);
  return vacancies_.contains(worker);
}

// Null: the session is over before anybody comes. What arrives meanwhile is for nobody.
std::unique_ptr<Worker> Process::successor_of(const Worker& lost) {
  const WorkerId id = lost.id();
  Entry entry = {.incarnation = lost.incarnation() + 1};
  {
    const std::lock_guard lock(faults_mutex_);
    Vacancy& vacancy = vacancies_.at(id);
    vacancy.left = true;
    vacancy.incarnation = lost.incarnation();
  }
  send(lost_message(id, lost.incarnation()));
  Mailbox& mailbox = *mailboxes_.at(id);
  for (bool filled = false; !filled;) {
    for (const Message& message : mailbox.take(/*wait=*/true)) {
      if (message.kind == MessageKind::kOver) return nullptr;
    }
    const std::lock_guard lock(faults_mutex_);
    filled = vacancies_.at(id).filled;
    if (filled) entry.own_state = std::move(vacancies_.extract(id).mapped().own_state);
  }
  mailbox.forget_reminders();
  LEEWAY_CHECK(options_.maker, "somebody makes the workers that come back");
  return options_.maker(id, entry);
}

bool Process::coordinator_must_go() {
  if (options_.planned.empty()) return false;
  const std::lock_guard lock(faults_mutex_);
  return std::exchange(coordinator_goes_, false);
}

// What was on its way to the old one is lost. The new one hears again of what nobody else would
// tell it.
void Process::replace_coordinator() {
  for (const Message& message : mailboxes_.at(kCoordinator)->take(/*wait=*/false))
    keep_wish(message);
  coordinator_.emplace(options_.plan, recorder_, Coordinator::Start::kAgain);
  {
    const std::lock_guard lock(faults_mutex_);
    for (const auto& [worker, vacancy] : vacancies_) {
      if (vacancy.left) coordinator_->deliver(lost_message(worker, vacancy.incarnation));
    }
  }
  if (wish_) coordinator_->deliver(*wish_);
}

}  // namespace leeway
