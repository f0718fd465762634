// Plays all workers of replica 1, which fill its places and load states of replica 0 one after the
// other, without an end: questions go in and answers come out as messages, at the pace that the run
// allows. What comes is serialized as for a network, and dropped.
#pragma once

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "drivers/loop/process.h"
#include "worker/state_transfer.h"

namespace leeway {

class Joiner {
 public:
  // `loads` false: it is there, and asks for nothing.
  Joiner(const RunPlan& plan, bool loads)
      : plan_(plan), loads_(loads), loading_(static_cast<size_t>(plan.shape.stages)) {}
  Joiner(const Joiner&) = delete;
  Joiner& operator=(const Joiner&) = delete;

  // The way out of the process: from any thread.
  void take(Message message) {
    if (message.kind == MessageKind::kState) box_.put(std::move(message));
  }
  // Says that it is there, so that the coordinator makes a table without its replica, and asks.
  void begin(Process& process) {
    process_ = &process;
    for (int64_t stage = 0; stage < plan_.shape.stages; ++stage) {
      Message here = message(MessageKind::kReport, {stage}, kCoordinator);
      here.index = 1;
      here.report = std::make_shared<const Report>(
          Present{.joins = true, .table = Membership::before_joining(plan_.replicas, {1})});
      process_->receive(to_bytes(here));
      if (loads_) ask({stage});
    }
    thread_ = std::thread([this] { load_until_closed(); });
  }
  // Before the process is gone.
  void end() {
    box_.close();
    thread_.join();
  }
  int64_t parts() const { return parts_; }  // that came, after the end

 private:
  // As StateReceiver does it.
  struct Loading {
    int64_t update = 0;
    int64_t part = 0;
    int64_t asks = 0;
    bool waits = false;
    bool paced = true;
  };
  static constexpr Nanos kAgain{1'000'000'000};

  Message message(MessageKind kind, StageId stage, WorkerId to) const {
    Message message = {.kind = kind, .from = {.replica = {1}, .stage = stage}, .to = to};
    message.envelope = {.run = plan_.run, .recipe = plan_.recipe, .incarnation = 1};
    return message;
  }
  void ask(StageId stage) {
    Loading& loading = loading_[static_cast<size_t>(stage.value)];
    Message question = message(MessageKind::kAskState, stage, {.replica = {0}, .stage = stage});
    question.update = loading.update;
    question.chunk = loading.part;
    process_->receive(to_bytes(question));
    loading.waits = true;
    loading.paced = false;
    Message reminder = message(MessageKind::kRemind, stage, {});
    reminder.index = 2 * ++loading.asks;
    const Nanos pace = plan_.join_pace(kStatePartBytes);
    box_.put_after(pace, reminder);
    ++reminder.index;
    box_.put_after(pace + kAgain, reminder);
  }
  void load_until_closed() {
    while (true) {
      const std::vector<Message> messages = box_.take(/*wait=*/true);
      if (messages.empty()) return;
      for (const Message& message : messages) hear(message);
    }
  }
  void hear(const Message& message) {
    Loading& loading = loading_[static_cast<size_t>(message.from.stage.value)];
    bool again = false;
    if (message.kind == MessageKind::kState) {
      to_bytes(message);
      ++parts_;
      const bool complete = message.chunk + 1 == message.index;
      loading.update = complete ? 0 : message.update;
      loading.part = complete ? 0 : message.chunk + 1;
      loading.waits = false;
    } else if (message.index / 2 == loading.asks) {
      loading.paced = true;
      again = message.index % 2 == 1;
    }
    if (loading.paced && (again || !loading.waits)) ask(message.from.stage);
  }

  const RunPlan& plan_;
  bool loads_;
  std::vector<Loading> loading_;  // by stage
  Process* process_ = nullptr;
  Mailbox box_;
  int64_t parts_ = 0;
  std::thread thread_;
};

}  // namespace leeway
