// One sentence from rank 0 to all others, for the time in which ranks have no other business with
// each other: they wait for it without taking a core away, however long it takes.
#pragma once

#include <future>
#include <string>

#include "drivers/mpi/mpi_post.h"

namespace leeway::mpi {

class Announcement {
 public:
  // Returns when all ranks have made theirs. No other post may be open.
  explicit Announcement(World& world);

  // Once, on rank 0; returns when all have heard it.
  void say(const std::string& text);
  // Once, on any other.
  std::string hear();

 private:
  World& world_;
  std::promise<std::string> heard_;
  MpiPost post_;  // the last: its end waits for handlers that use the promise
};

}  // namespace leeway::mpi
