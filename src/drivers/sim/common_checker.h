// Watches a common model from outside: every member applies the same answers in the same order,
// without gaps, and no contribution counts twice. Returns an empty string if all is well, otherwise
// what the method forbids.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "drivers/sim/mesh.h"
#include "events/work.h"
#include "worker/message.h"

namespace leeway::sim {

class CommonChecker {
 public:
  explicit CommonChecker(const Mesh& mesh) : mesh_(mesh) {}

  // `backwards`: that the worker has done by then.
  void contributed(WorkerId worker, int64_t number, int64_t backwards);
  // Backwards since the newest of its own that is in the answer was sent; none: nothing of its own
  // is, or it was sent too long ago.
  std::optional<int64_t> lag(WorkerId worker, const Message& answer, int64_t backwards) const;
  // It goes on with another's copy, or an older one of its own, and catches up.
  void restarted(WorkerId worker);
  // The worker applies this answer now. `members`: whom it knows to be there. An owner that is lost
  // may have applied an answer that nobody else has heard of.
  std::string applies(WorkerId worker, const Message& answer, const ReplicaSet& members);
  // The run is over: all that are left have the same model.
  std::string ended(const std::vector<WorkerId>& left) const;

 private:
  using ChunkId = std::pair<StageId, int64_t>;
  struct Answer {
    std::vector<PartId> parts;
    uint64_t hash = 0;  // of the payload
    ReplicaSet applied_by;
    bool is(const Answer& other) const { return parts == other.parts && hash == other.hash; }
  };
  struct Chunk {
    std::map<int64_t, std::vector<Answer>> answers;  // by number: one, but for those of the lost
    std::map<PartId, int64_t> counted;               // contribution -> the answer that has it
    std::map<ReplicaId, int64_t> applied;            // by replica: number
  };

  Mesh mesh_;
  std::map<WorkerId, std::map<int64_t, int64_t>> contributed_;  // by number: backwards by then
  std::map<ChunkId, Chunk> chunks_;
};

}  // namespace leeway::sim
