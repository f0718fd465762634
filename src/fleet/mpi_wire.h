// A fleet's wire between the ranks of an MPI job. Who lives where is known from the beginning, and
// nobody else can come: there are no addresses, no strangers, and nobody to forget.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "drivers/mpi/mpi_post.h"
#include "fleet/wire.h"

namespace leeway {

// Those of all that live on this rank: its guest and, on rank 0, the host.
class MpiWires {
 public:
  // Returns when all ranks have made theirs. It outlives the wires.
  explicit MpiWires(mpi::World& world);
  MpiWires(const MpiWires&) = delete;
  MpiWires& operator=(const MpiWires&) = delete;

  // Makes the one wire of a process that lives here. What comes for it before waits for it.
  WireMaker wire(ProcessId self);

 private:
  class MpiWire;
  // Used on the thread of MPI.
  struct Letterbox {
    Post::Handlers handlers = {};
    std::vector<std::pair<ProcessId, Parcel>> early = {};
  };
  mpi::MpiPostOptions post_options();
  void open(ProcessId self, Post::Handlers handlers);

  mpi::World& world_;
  std::map<ProcessId, Letterbox> letterboxes_;
  mpi::MpiPost post_;  // the last: its end waits for those who use the letterboxes
};

}  // namespace leeway
