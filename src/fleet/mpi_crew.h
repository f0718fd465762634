// A run of all ranks of an MPI job. Every rank has a guest; rank 0 also has the host, and with it
// the folder of the run. MPI ends the job with the first rank that dies: what survives is on disk.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/files.h"
#include "base/result.h"
#include "config/recipe.h"
#include "drivers/mpi/announcement.h"
#include "fleet/host_and_guest.h"
#include "fleet/mpi_wire.h"
#include "run/crew.h"

namespace leeway {

// What every rank needs to train.
struct MpiRankOptions {
  mpi::World& world;
  Path text_cache;
  const Clock& clock;
  std::function<void(const std::string& warning)> warned = {};
};

// How it went on rank 0; all ranks end like it.
struct MpiEnd {
  std::optional<ErrorKind> failed = {};
  int signal = 0;  // of kInterrupted
};

// Rank 0's crew. The other ranks call follow_rank_0() at the same time.
class MpiCrew final : public Crew {
 public:
  explicit MpiCrew(MpiRankOptions options);
  MpiCrew(const MpiCrew&) = delete;
  MpiCrew& operator=(const MpiCrew&) = delete;

  struct Run {
    Recipe recipe;
    std::string recipe_text;
    Path folder;
    std::function<bool()> interrupted = {};
  };
  // The folder is there: all ranks begin. A rank that fails ends the job, with a sentence.
  Status begin(const Run& run);
  Status prepare(const SessionStart& start) override { return both_.prepare(start); }
  Status run(Recorder& recorder, ShardStore& shards) override {
    return both_.run(recorder, shards);
  }
  const Clock& clock() const override { return options_.clock; }
  // To be called in any case, or the other ranks wait for ever.
  void end(const MpiEnd& end);

 private:
  MpiRankOptions options_;
  std::unique_ptr<mpi::Announcement> announcement_;  // the next one
  std::unique_ptr<MpiWires> wires_;
  HostAndGuest both_;
};

// Trains in the places of this rank, if rank 0 has a run to train. Returns when that has ended.
MpiEnd follow_rank_0(const MpiRankOptions& options);

}  // namespace leeway
