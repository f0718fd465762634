// The post between the ranks of an MPI job. The guest of rank r is process r + 1; rank 0 also has
// the host. One MpiPost in a program serves all that live there, each through an endpoint of its
// own. MPI ends the whole job when one of its processes dies: so no peer is ever silent or
// unreachable, and only `received` is called.
#pragma once

#include <array>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "drivers/mpi/parcel_queue.h"
#include "drivers/mpi/transfers.h"
#include "drivers/mpi/world.h"

namespace leeway::mpi {

struct MpiPostOptions {
  // Those that live in this program: guest_of(rank), and kHost if this is rank 0.
  std::map<ProcessId, Post::Handlers> handlers;
  // Parcels travel in pieces of at most this size; the same on all ranks.
  size_t piece_bytes_max = size_t{1} << 30;
};

class MpiPost {
 public:
  // Returns when all ranks have made theirs. A World has one at a time, and outlives it.
  MpiPost(World& world, MpiPostOptions options);
  ~MpiPost();
  MpiPost(const MpiPost&) = delete;
  MpiPost& operator=(const MpiPost&) = delete;

  // What `self`, which lives here, sends and closes. It must not outlive this object; its end
  // closes it.
  std::unique_ptr<Post> endpoint(ProcessId self);

  // Closes all that live here together: waits until every rank has closed its own, and until then
  // parcels still arrive. So does the last endpoint that is closed; one before it waits only until
  // its own parcels have left. Nobody closes from a handler.
  void close();

 private:
  class Endpoint;
  // The ways between this rank and another one, by class.
  struct Peer {
    std::vector<Departures> departures;
    std::vector<Arrivals> arrivals;
  };
  using Queues = std::array<ParcelQueue, kTrafficClasses>;

  void send(Addressed addressed);
  void close(ProcessId self);
  void finish();
  World::Pace turn();
  std::vector<Addressed> take_waiting();
  bool begin_departures();
  bool begin_arrivals();
  bool look_at_peers();
  void say_farewell();
  void note_end();
  void hand_over(Addressed addressed);
  void has_left(ProcessId from);

  World& world_;
  std::map<ProcessId, Post::Handlers> handlers_;
  // Used on the thread of MPI:
  std::unique_ptr<Communicator> communicator_;
  std::vector<Peer> peers_;  // by rank; this one's own is empty
  bool under_way_ = false;   // something has begun to leave or to arrive

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Queues> waiting_;          // by rank
  std::map<ProcessId, int64_t> unsent_;  // parcels that have not left, by sender
  std::set<ProcessId> closing_;          // close() was called
  std::set<ProcessId> gone_;             // closed before another one of this rank
  bool farewell_said_ = false;           // this rank sends no more
  bool ended_ = false;                   // nor does any other
};

}  // namespace leeway::mpi
