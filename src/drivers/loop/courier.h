// Takes messages to another process. It makes bytes of them on a thread of its own: no worker waits
// for a copy, or for one from a GPU. Messages leave in the order in which they came.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "drivers/loop/mailbox.h"
#include "worker/packing.h"

namespace leeway {

class Courier {
 public:
  // A message and its bytes; called on the courier's thread, and may block.
  using Carry = std::function<void(const Message&, std::vector<std::byte>)>;

  // The plan outlives it.
  Courier(const RunPlan& plan, Carry carry)
      : plan_(plan), carry_(std::move(carry)), thread_([this] { carry_until_closed(); }) {}
  // What was taken before is carried first.
  ~Courier() {
    waiting_.close();
    thread_.join();
  }
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  void take(Message message) { waiting_.put(std::move(message)); }

 private:
  void carry_until_closed() {
    while (true) {
      std::vector<Message> messages = waiting_.take(/*wait=*/true);
      if (messages.empty()) return;
      Packer packer(plan_);
      for (Message& message : messages) {
        if (message.ready) message.ready->synchronize();  // a GPU may have yet to compute it
        packer.pack_for_others(message);
        carry_(message, to_bytes(message));
        message = {};  // its tensor is not held while the others are carried
      }
    }
  }

  const RunPlan& plan_;
  Carry carry_;
  Mailbox waiting_;
  std::thread thread_;
};

}  // namespace leeway
