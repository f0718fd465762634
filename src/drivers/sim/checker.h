// Watches every worker of a simulation from outside and stops the program when one of them does
// something the method does not allow. It keeps its own counts, so a worker that miscounts is
// caught.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "drivers/sim/common_checker.h"
#include "drivers/sim/mesh.h"
#include "drivers/sim/round_checker.h"
#include "events/work.h"
#include "pipeline/schedule.h"
#include "worker/message.h"
#include "worker/workers.h"

namespace leeway::sim {

class Checker {
 public:
  // The workers before their first piece of work, in mesh order.
  Checker(const Mesh& mesh, const Workers& workers);

  // Checks that each microbatch goes once each way and in order; that at most W_s + 1 are in
  // flight; that the delay follows the formula, counted from the last flush point, and a replica's
  // stages share their flush points; that a backward uses its forward's version; and that nothing
  // starts before the messages it needs. Rounds have their own checker.
  void began(size_t worker, const Work& work, Nanos now = {});

  // The worker merges this answer of a common model.
  void applies(size_t worker, const Work& work, const Message& answer, const ReplicaSet& members);

  void sent(const Message& message);
  void received(const Message& message, Nanos now = {});
  // A second copy; the first was refused.
  void received_again(const Message& message, Nanos now);
  void asked_for(const Message& deadline, Nanos after, Nanos now);
  void lost(const Message& message);
  // Between a worker and the coordinator, either way. Checks that a report claims only updates that
  // were made, each update once and in order; and that the coordinator hears of no other reports.
  void told(const Message& message);
  // Another worker fills this one's place. What it does counts from its replica's restart on.
  void filled(size_t worker);
  // The replica has lost a worker for good: what it leaves unfinished is not an error.
  void stranded(ReplicaId replica) { stranded_[static_cast<size_t>(replica.value)] = true; }

  // Checks that no microbatch is in flight on any stage and no message on any link, that every
  // training message was used, and that the stages of a replica have done the same updates.
  // Stranded replicas are exempt.
  void ended() const;

 private:
  struct Track {
    Schedule schedule;
    Counts counts;
    int64_t flushed_at = 0;              // first microbatch after the last flush point
    size_t flushes = 0;                  // flush points seen by this stage
    std::vector<int64_t> versions = {};  // by microbatch in flight, modulo W_s + 1
    int64_t reports = 0;                 // newest number
    int64_t claimed = 0;                 // updates, in its reports
    int64_t evaluated_update = -1;       // newest evaluation
    int64_t evaluated_batch = -1;        // its newest batch
    int64_t epoch = 0;                   // of its replica
    int64_t incarnation = 0;
    std::array<int64_t, kMessageKinds> inbox = {};  // messages no work has used yet, by kind
    std::map<int64_t, std::array<int64_t, kMessageKinds>> early = {};  // those of later epochs
    int64_t& version(int64_t microbatch);  // `microbatch` must be in flight
    int64_t& unused(MessageKind kind) { return inbox[static_cast<size_t>(kind)]; }
  };
  void use_messages(size_t worker, const Work& work);
  void forward(size_t worker, const Work& work);
  void backward(size_t worker, const Work& work);
  void note_flush(size_t worker, const Work& work);
  void evaluation(size_t worker, const Work& work);
  void reported(const Message& message);
  void adopt(size_t worker, const Work& work);
  bool sums_norms(ReplicaId replica) const;
  std::string words(size_t worker, const Work& work, std::string_view wrong) const;

  Mesh mesh_;
  std::vector<Track> tracks_;                   // by worker
  std::vector<std::vector<int64_t>> flush_at_;  // by replica: microbatches, as stage 0 saw them
  std::vector<bool> stranded_;                  // by replica
  std::vector<int64_t> epochs_;                 // by replica: the newest that one has adopted
  std::map<int64_t, Membership> tables_;        // by number
  RoundChecker rounds_;
  CommonChecker common_;
  int64_t run_updates_;
  bool stops_ = false;  // some may end before others
  int64_t messages_on_way_ = 0;
  int64_t bytes_on_way_ = 0;
};

}  // namespace leeway::sim
