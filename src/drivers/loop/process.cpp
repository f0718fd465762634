#include "drivers/loop/process.h"

#include <ATen/Parallel.h>

#include <chrono>
#include <thread>
#include <utility>

#include "base/check.h"
#include "drivers/loop/device_stream.h"
#include "drivers/loop/turn.h"
#include "worker/packing.h"

namespace leeway {
namespace {

// What a driver tells those who live in its own process is not for others to say.
bool travels(MessageKind kind) { return !is_of_driver(kind); }

Message over_message(const RunPlan& plan, WorkerId to) {
  Message message = {.kind = MessageKind::kOver, .from = kCoordinator, .to = to};
  message.envelope = {.run = plan.run, .recipe = plan.recipe};
  return message;
}

constexpr Mailbox::Patience kLatePatience = std::chrono::milliseconds(1);

at::Device device_of(const Worker& worker) {
  const StageCompute* const compute = worker.compute();
  return compute == nullptr ? at::Device(at::kCPU) : compute->stage().weights().device();
}

}  // namespace

Process::Process(ProcessOptions options)
    : options_(std::move(options)),
      router_(std::make_shared<const Router>(std::move(options_.router))),
      recorder_(options_.journal, options_.recorder),
      planned_(options_.planned, options_.plan.first_update) {
  for (const Worker* worker : options_.workers) {
    mailboxes_[worker->id()] = std::make_shared<Mailbox>();
    devices_.emplace(worker->id(), device_of(*worker));
  }
  if (options_.recorder == nullptr) return;
  coordinator_.emplace(options_.plan, recorder_, options_.coordinator);
  mailboxes_[kCoordinator] = std::make_shared<Mailbox>();
}

Recorder::AskRun Process::asker() const {
  const auto asking = [message = ask_message(options_.plan, Ask::kStop)](Ask wish) {
    Message ask = message;
    ask.index = static_cast<int64_t>(wish);
    return ask;
  };
  const auto found = mailboxes_.find(kCoordinator);
  if (found == mailboxes_.end()) {
    return [asking, way = std::weak_ptr(router_)](Ask wish) {
      if (const auto open = way.lock()) (*open)(asking(wish));
    };
  }
  return [asking, box = std::weak_ptr(found->second)](Ask wish) {
    if (const auto open = box.lock()) open->put(asking(wish));
  };
}

void Process::send(Message message) {
  message.ready = moment_after(message.payload);
  const auto found = mailboxes_.find(message.to);
  if (found != mailboxes_.end()) return found->second->put(std::move(message));
  LEEWAY_CHECK(*router_, "all of the mesh lives here");
  // Everything that this process has logged so far came before.
  message.envelope.tick = recorder_.tick();
  (*router_)(std::move(message));
}

void Process::remind(Message message, Nanos after) {
  mailboxes_.at(message.to)->put_after(after, std::move(message));
}

void Process::store(std::shared_ptr<const StageState> state) { shards_->take(std::move(state)); }

void Process::tell_stored(Message message) {
  {
    const std::lock_guard lock(stored_mutex_);
    stored_[message.to] = message.report;
  }
  mailboxes_.at(message.to)->put(std::move(message));
}

// A run that ends early, because its last replica has diverged, ends before its workers can tell
// what is on disk by now. What was told before changes nothing.
void Process::record_stored() {
  if (options_.recorder == nullptr) return;
  for (const auto& [worker, report] : stored_) recorder_.saved(std::get<ShardSaved>(*report));
}

bool Process::receive(std::span<const std::byte> bytes, const Believes& believes) {
  Result<Message> message = from_bytes(bytes);
  if (!message.ok() || !travels(message->kind)) return false;
  if (believes && !believes(*message)) return false;
  const auto found = mailboxes_.find(message->to);
  if (found == mailboxes_.end()) return false;
  // Here and not on the worker's thread.
  const auto device = devices_.find(message->to);
  if (is_for_device(*message) && device != devices_.end()) {
    try {
      if (!device->second.is_cpu()) unpack_from_others(options_.plan, *message);
      message->payload = message->payload.to(device->second);
    } catch (...) {  // the device is out of memory: that ends the run, not only this thread
      fail(std::current_exception());
      return false;
    }
  }
  // A message of another run is refused by its receiver, and must not move the clock before.
  if (message->envelope.run == options_.plan.run) recorder_.move_tick_to(message->envelope.tick);
  found->second->put(std::move(*message));
  return true;
}

void Process::lost(WorkerId worker, int64_t incarnation) {
  mailboxes_.at(kCoordinator)->put(lost_message(worker, incarnation));
}

void Process::leave() {
  for (const auto& [worker, mailbox] : mailboxes_)
    mailbox->put(over_message(options_.plan, worker));
}

void Process::run() {
  std::vector<std::thread> threads;
  const std::vector<Worker*>& workers = options_.workers;
  try {
    background_.emplace([this](std::exception_ptr failure) { fail(std::move(failure)); });
    shards_.emplace(options_.shards, *background_,
                    [this](Message message) { tell_stored(std::move(message)); });
    if (coordinator_) threads.emplace_back([this] { guarded([this] { coordinate(); }); });
    for (size_t i = 0; i < workers.size() && workers.size() > 1; ++i) {
      threads.emplace_back([this, i] {
        guarded([&] {
          at::set_num_threads(options_.threads_per_worker);  // for this thread only
          work(*options_.workers[i]);
        });
      });
    }
  } catch (...) {  // the system is out of threads: those already running must end first
    fail(std::current_exception());
  }
  // A single worker has this thread, and the numeric threads that belong to it.
  if (workers.size() == 1) guarded([&] { work(*workers.front()); });
  for (std::thread& thread : threads) thread.join();
  if (shards_) shards_->close();
  if (background_) background_->finish();
  record_stored();
  std::exception_ptr failure;
  {
    const std::lock_guard lock(failure_mutex_);
    failure = failure_;
  }
  if (failure) std::rethrow_exception(failure);
}

void Process::work(Worker& first) {
  Mailbox& mailbox = *mailboxes_.at(first.id());
  Worker* worker = &first;
  std::unique_ptr<Worker> successor;
  std::optional<DeviceStream> device;
  if (const at::Device own = devices_.at(first.id()); !own.is_cpu()) {
    device.emplace(own, options_.clock);
  }
  bool idle = false;
  while (!worker->over()) {
    // What the device finishes in the meantime is told soon, though nothing arrives.
    const auto patience = worker->has_late() ? kLatePatience : Mailbox::kForever;
    for (Message& message : mailbox.take(/*wait=*/idle, patience)) {
      device ? device->receive(message) : bring_to_host(message);
      worker->deliver(std::move(message));
    }
    if (!worker->over() && must_go(worker->id())) {
      successor = successor_of(*worker);
      if (!successor) return;
      worker = successor.get();
    }
    const int64_t updates = worker->counts().updates;
    const std::optional<WorkKind> done =
        take_turn(*worker, options_.clock, *this, recorder_, device ? &*device : nullptr);
    idle = !done;
    if (device) device->limit();
    if (idle && worker->has_late()) {
      worker->settle(*this, recorder_);
      idle = worker->has_late();  // else there may be something to do now: to say that it is done
    }
    if (done && *done != WorkKind::kReport) ++turns_;
    const bool updated = worker->counts().updates > updates;
    if (updated && worker->id().stage.value == 0) {
      fail_as_planned(worker->id().replica, worker->counts().updates);
    }
  }
}

void Process::coordinate() {
  Mailbox& mailbox = *mailboxes_.at(kCoordinator);
  bool idle = false;
  while (!coordinator_->over()) {
    for (const Message& message : mailbox.take(/*wait=*/idle)) {
      keep_wish(message);
      coordinator_->deliver(message);
    }
    if (coordinator_must_go()) replace_coordinator();
    idle = !take_turn(*coordinator_, *this);
    do_chores();
  }
  // Also whoever is in a place that was empty for it.
  for (const Worker* worker : options_.workers) send(over_message(options_.plan, worker->id()));
}

// A save that was asked for is made or not; an end is wanted until it comes.
void Process::keep_wish(const Message& message) {
  const bool lasts = message.index != static_cast<int64_t>(Ask::kSave);
  const bool stronger = !wish_ || message.index > wish_->index;
  if (message.kind == MessageKind::kAsk && lasts && stronger) wish_ = message;
}

// Off this thread: an order that somebody waits for must not wait for a disk.
void Process::do_chores() {
  while (std::optional<Recorder::Chore> chore = recorder_.take_chore()) {
    background_->run([this, chore = std::move(*chore)] { recorder_.call(chore()); });
  }
}

template <class Action>
void Process::guarded(const Action& action) {
  try {
    action();
  } catch (...) {
    fail(std::current_exception());
  }
}

// The coordinator may be what failed: then everybody is told from here, else all who live here.
void Process::fail(std::exception_ptr failure) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = std::move(failure);
  }
  const RunPlan& plan = options_.plan;
  send(ask_message(plan, Ask::kAbandon));
  for (size_t at = 0; at < plan.mesh().count(); ++at) {
    const WorkerId id = plan.mesh().id(at);
    if (options_.recorder != nullptr || mailboxes_.contains(id)) send(over_message(plan, id));
  }
}

}  // namespace leeway
