// Who has which place, as the host knows it: pure bookkeeping, no network. A place that was filled
// before in a session gets the next incarnation; a new session begins with all at zero.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/mesh.h"
#include "fleet/directory.h"

namespace leeway {

class Places {
 public:
  explicit Places(const Mesh& mesh) : mesh_(mesh), filled_(mesh.count()), times_(mesh.count(), 0) {}

  // A process that has not joined before, without places yet; `capacity` is how many it can take.
  void join(Member member, int64_t capacity);
  // It has the data, and can take places.
  void set_ready(ProcessId process);
  // Returns the places that are empty now.
  std::vector<Place> leave(ProcessId process);

  bool knows(ProcessId process) const { return seated_.contains(process); }
  bool is_ready(ProcessId process) const;
  const Member* find(ProcessId process) const;
  std::optional<ProcessId> named(const std::string& name) const;
  // Places that nobody has, and those that nobody could take now.
  int64_t empty() const;
  int64_t missing() const;

  // As another host left it: all are ready, and can take as many places as they have.
  void restore(Directory directory, std::vector<int64_t> times);
  // How often each place was filled in this session, by worker.
  const std::vector<int64_t>& times() const { return times_; }

  // Every place is to be filled anew: processes keep what they had, and take what is empty.
  void begin_session();
  // One that is ready and has none gets empty places, if there are any; returns them.
  std::vector<Place> fill(ProcessId process);
  // Those that are ready, in the order in which they came; and all.
  std::vector<ProcessId> ready() const;
  std::vector<ProcessId> known() const;

  // The first cannot reach the second: the second one dials from now on. False: it cannot reach the
  // first one either.
  bool turn_around(ProcessId from, ProcessId to);
  // Who has places now.
  const Directory& directory() const { return directory_; }

 private:
  struct Seated {
    Member member;
    int64_t capacity = 0;
    bool ready = false;
    int64_t order = 0;  // in which it came
  };
  void seat(Seated& seated, size_t at);
  void seat_where_empty(Seated& seated);
  void renew();

  Mesh mesh_;
  std::map<ProcessId, Seated> seated_;
  std::vector<std::optional<ProcessId>> filled_;  // by worker
  std::vector<int64_t> times_;                    // that it was filled in this session
  int64_t came_ = 0;
  Directory directory_;
};

}  // namespace leeway
