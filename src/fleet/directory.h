// Who is where: the processes of a run, how they are reached, and which places they have. The host
// makes it, numbered, and hands it to all; a process believes a message only if it comes from the
// process that has its sender's place.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "drivers/loop/post.h"
#include "fleet/note.h"

namespace leeway {

struct Place {
  WorkerId worker;
  int64_t incarnation = 0;  // how often it was filled before, in this session
  bool operator==(const Place&) const = default;
};

struct Member {
  ProcessId id;
  std::string name = {};     // for people
  std::string address = {};  // tcp://HOST:PORT; empty: it dials all others
  std::string key = {};      // public; empty: plain text
  std::vector<Place> places = {};
};

struct Directory {
  int64_t number = 0;  // the newest counts
  std::vector<Member> members;
  // Where the first cannot be dialed by the second: the first dials.
  std::vector<std::pair<ProcessId, ProcessId>> turned = {};

  const Member* find(ProcessId id) const;
  // The process that has a worker's place; none: it is empty.
  std::optional<ProcessId> home_of(WorkerId worker) const;
  // Of two processes one dials: the one with the larger id, unless the other one has no address, or
  // cannot be reached from there.
  bool dials(ProcessId from, ProcessId to) const;
  // Whether this process may say something for this worker.
  bool may_speak(ProcessId process, WorkerId worker, int64_t incarnation) const;
};

nlohmann::json to_json(const Directory& directory);
Result<Directory> directory_from(const nlohmann::json& json);

}  // namespace leeway
