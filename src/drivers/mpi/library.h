// MPI itself: the only place that knows its functions. A function that fails throws a
// std::runtime_error with a sentence; World ends the job with it, because MPI has no way to go on.
// All of them are called on one thread: that of World.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"

namespace leeway::mpi {

struct Ranks {
  int own = 0;
  int count = 1;
};

// An error: this build has no MPI, or MPI cannot start here.
Result<Ranks> initialize();
void finalize();
// Ends every process of the job.
[[noreturn]] void abort_job();

// Bytes that leave or arrive; their place in memory is MPI's until done() says so.
struct Transfer {
  uint64_t handle = 0;
};

// The next message of a rank with some tag: it can be received, and nobody else can take it.
struct Arrival {
  int from = 0;
  size_t bytes = 0;
  uint64_t handle = 0;
};

// The way between all ranks. Messages with one tag, from one rank to another, stay in order.
class Communicator {
 public:
  // All ranks make theirs together, and give it back together.
  Communicator();
  void give_back();

  // At most 2^31 - 1 bytes.
  Transfer send(std::span<const std::byte> bytes, int to, int tag);
  std::optional<Arrival> arrived(int tag);
  // `into` has the size of the arrival.
  Transfer receive(const Arrival& arrival, std::span<std::byte> into);
  bool done(Transfer& transfer);

 private:
  uint64_t handle_ = 0;
};

}  // namespace leeway::mpi
