// Where the messages of a session leave and enter a process. Those of a session that this process
// has yet to begin wait; those of an earlier one are for nobody. A message is believed only if its
// sender's place belongs to the process that it comes from.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "drivers/loop/courier.h"
#include "drivers/loop/process.h"
#include "fleet/directory.h"

namespace leeway {

// A newer contribution may take the place of one that waits for the line, where owners close
// without those that are late; one without content, which says where its sender is, never that of
// one with content. With a fixed lag every part is waited for. 0: nothing takes its place.
uint64_t slot_of(const Message& message, const RunPlan& plan);

class Gate {
 public:
  using Send = std::function<void(ProcessId to, Parcel parcel)>;
  explicit Gate(Send send) : send_(std::move(send)) {}

  void adopt(Directory directory);
  Directory directory() const;

  // This session is next: what comes for it waits, and what is for earlier ones is dropped.
  void expect(int64_t session);
  // A session begins; the plan outlives it. Returns the way out for its messages.
  Router open(int64_t session, const RunPlan& plan);
  // What has come for it so far is delivered, and all that comes from now on.
  void attach(Process& process);
  // What was sent has left this process; nothing more is delivered.
  void close();
  // The session goes on without this process, if it is in one.
  void leave();
  // A worker that lives elsewhere is gone.
  void lost(const Place& place);

  // From any thread.
  void receive(ProcessId from, Parcel parcel);
  int64_t disbelieved() const;

 private:
  void deliver(ProcessId from, const Parcel& parcel);
  void keep(ProcessId from, Parcel parcel);
  void carry(int64_t session, const RunPlan& plan, const Message& message,
             std::vector<std::byte> bytes);

  Send send_;
  mutable std::mutex mutex_;
  Directory directory_;
  int64_t session_ = 0;  // that runs here, or ran last
  Process* process_ = nullptr;
  std::vector<std::pair<ProcessId, Parcel>> early_;
  size_t early_bytes_ = 0;
  int64_t disbelieved_ = 0;
  std::unique_ptr<Courier> courier_;
};

}  // namespace leeway
