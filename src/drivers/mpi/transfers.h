// Both ends of a way from one rank to another, for one class of parcels. A parcel is a message with
// its header and then messages with its bytes, in pieces: MPI counts in int. All have the tag of
// the class, so that they stay in order and no class waits for another one. Used on the thread of
// MPI.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <vector>

#include "drivers/mpi/library.h"
#include "drivers/mpi/parcel_header.h"

namespace leeway::mpi {

struct Way {
  Communicator* communicator = nullptr;
  int own = 0;   // this rank, and
  int peer = 0;  // the other one
  TrafficClass traffic = TrafficClass::kControl;
  size_t piece_bytes_max = 0;

  int tag() const { return static_cast<int>(traffic); }
};

class Departures {
 public:
  using Left = std::function<void(ProcessId from)>;

  explicit Departures(const Way& way) : way_(way) {}

  // How many may begin. More would only wait inside MPI, where no newer one can take their place.
  size_t room() const { return kDepartingMax - departing_.size(); }
  bool empty() const { return departing_.empty(); }
  void begin(Addressed addressed);
  void begin_farewell();
  // Calls `left` for each parcel that has left. True: there was one.
  bool look(const Left& left);

 private:
  static constexpr size_t kDepartingMax = 4;
  struct Departing {
    ParcelHeader header;
    Addressed addressed;
    std::vector<Transfer> transfers;
  };

  void begin_header(Departing& departing);

  Way way_;
  std::list<Departing> departing_;  // a list: MPI reads the headers where they are
};

class Arrivals {
 public:
  using Arrived = std::function<void(Addressed)>;

  explicit Arrivals(const Way& way) : way_(way) {}

  bool empty() const { return arriving_.empty(); }
  bool ended() const { return farewell_ && empty(); }
  // The next message from the peer. Throws if it is not one that fits.
  void begin(const Arrival& arrival);
  // Calls `arrived` for each parcel that is complete, in order. True: there was one.
  bool look(const Arrived& arrived);

 private:
  struct Arriving {
    Addressed addressed;
    size_t begun_bytes = 0;
    std::vector<Transfer> transfers = {};
    bool all_begun() const { return begun_bytes == addressed.parcel.bytes.size(); }
  };

  void begin_header(const Arrival& arrival);
  void begin_piece(const Arrival& arrival, Arriving& arriving);

  Way way_;
  std::deque<Arriving> arriving_;
  bool farewell_ = false;
};

}  // namespace leeway::mpi
