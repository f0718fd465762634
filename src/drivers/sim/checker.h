// Watches every worker of a simulation from outside and stops the program when one of them does
// what the method does not allow. It keeps counts of its own: a worker whose recorder are wrong
// cannot talk its way out.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "drivers/sim/mesh.h"
#include "drivers/sim/round_checker.h"
#include "events/work.h"
#include "pipeline/schedule.h"
#include "worker/message.h"
#include "worker/workers.h"

namespace leeway::sim {

class Checker {
 public:
  // The workers as they are before the first piece of work, in the order of the mesh.
  Checker(const Mesh& mesh, const Workers& workers);

  // Each microbatch once each way and in order; never more than W_s + 1 in flight; the delay of the
  // formula, counted from the last flush point, and flush points that a replica's stages share; a
  // backward with its forward's version; and nothing before the messages that it needs. Rounds have
  // a checker of their own.
  void began(size_t worker, const Work& work, Nanos now = {});

  void sent(const Message& message);
  void received(const Message& message, Nanos now = {});
  void lost(const Message& message);
  // It has lost a worker for good: what it leaves behind is nobody's fault.
  void stranded(ReplicaId replica) { stranded_[static_cast<size_t>(replica.value)] = true; }

  // All other workers are done: nothing is in flight, on any stage or on any link, every message of
  // the training was used, and the stages of a replica have done the same updates.
  void ended() const;

 private:
  struct Track {
    Schedule schedule;
    Counts counts;
    int64_t flushed_at = 0;                         // the microbatch after the last flush point
    size_t flushes = 0;                             // seen by this stage
    std::vector<int64_t> versions = {};             // by microbatch in flight, modulo W_s + 1
    int64_t evaluated_update = -1;                  // the newest evaluation
    int64_t evaluated_batch = -1;                   // and its newest batch
    std::array<int64_t, kMessageKinds> inbox = {};  // messages that no work has used yet, by kind
    int64_t& version(int64_t microbatch);           // of one in flight
    int64_t& unused(MessageKind kind) { return inbox[static_cast<size_t>(kind)]; }
  };
  void use_messages(size_t worker, const Work& work);
  void forward(size_t worker, const Work& work);
  void backward(size_t worker, const Work& work);
  void note_flush(size_t worker, const Work& work);
  void evaluation(size_t worker, const Work& work);
  bool sums_norms(ReplicaId replica) const;
  std::string words(size_t worker, const Work& work, std::string_view wrong) const;

  Mesh mesh_;
  std::vector<Track> tracks_;                   // by worker
  std::vector<std::vector<int64_t>> flush_at_;  // by replica: microbatches, as stage 0 had them
  std::vector<bool> stranded_;                  // by replica
  RoundChecker rounds_;
  int64_t messages_on_way_ = 0;
  int64_t bytes_on_way_ = 0;
};

}  // namespace leeway::sim
