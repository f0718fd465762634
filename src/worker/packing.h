// Workers on the CPU pack what they send to other replicas, and unpack what comes (pack() in
// averaging/wire.h). The length of what is packed is not known before it is made, and a worker
// never waits for its GPU: so one on a GPU has blocks as they are, and its process packs and
// unpacks them where messages leave and enter it.
#pragma once

#include "worker/message.h"
#include "worker/run_plan.h"

namespace leeway {

class Packer {
 public:
  explicit Packer(const RunPlan& plan) : plan_(plan) {}  // the plan outlives it

  // Before a message becomes bytes: brings a payload of a GPU to the host, and packs it. An answer
  // that goes to all members is packed once, if it goes to one after the other.
  void pack_for_others(Message& message);

 private:
  const RunPlan& plan_;
  at::Tensor payload_;  // the newest
  at::Tensor packed_;
};

// Of a message for a worker on a GPU, on the host. What nobody can have sent is replaced by
// nothing, which the worker refuses: it cannot look into blocks on its GPU.
void unpack_from_others(const RunPlan& plan, Message& message);

}  // namespace leeway
