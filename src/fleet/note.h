// What the processes of a run tell each other about the run itself: who takes part, sessions, and
// files that travel. Rare and small but for the files: a line of JSON, and perhaps bytes after it.
// What arrives is untrusted input: a fact that is missing or of another type is an Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace leeway {

// Of notes and of what they mean; a process with another one cannot take part.
inline constexpr int64_t kFleetProtocol = 2;

enum class NoteKind {
  // To the host:
  kJoin,         // it wants to take part
  kReady,        // it has the recipe and the data, and can take places
  kAskState,     // part of the state that a worker begins a session with
  kShardPart,    // part of a file that a worker has saved
  kLogPart,      // part of its log
  kLeft,         // its part of the session is over
  kGoes,         // it goes, on purpose
  kUnreachable,  // another process cannot be reached from here
  kReached,      // one that could not be reached is heard
  kBack,         // it is in a session that this host, started again, may know
  // From the host:
  kWelcome,      // the recipe
  kRefused,      // why it cannot take part
  kSession,      // a session begins, with these places
  kDirectory,    // who is where
  kState,        // the part that was asked for
  kShardTaken,   // up to this part
  kShardStored,  // it is on the host's disk, or why not
  kEnd,          // the run is over
  kSessionOver,  // this session is: whoever is still in it leaves
  kGoesOn,       // the session does: what was on its way to an earlier host is sent again
  kForgotten,    // the session does not: it may join, as another process
};
inline constexpr int kNoteKinds = 21;

class Note {
 public:
  explicit Note(NoteKind kind) : kind_(kind) {}

  NoteKind kind() const { return kind_; }
  nlohmann::json& facts() { return facts_; }
  const nlohmann::json& facts() const { return facts_; }
  std::vector<std::byte>& body() { return body_; }
  const std::vector<std::byte>& body() const { return body_; }

  template <class Value>
  Note& add(const char* name, Value value) {
    facts_[name] = std::move(value);
    return *this;
  }
  // What another process says: an error names the fact.
  Result<int64_t> whole(const char* name) const;
  Result<std::string> text(const char* name) const;
  // Whether there is such a fact, of a type as nlohmann::json names it.
  bool has(const char* name, bool (nlohmann::json::*type)() const) const;

 private:
  NoteKind kind_;
  nlohmann::json facts_ = nlohmann::json::object();
  std::vector<std::byte> body_;
};

// A whole number that fits; what is larger would pass for a negative one.
bool is_whole(const nlohmann::json& json);

std::vector<std::byte> to_bytes(const Note& note);
Result<Note> note_from(std::span<const std::byte> bytes);

}  // namespace leeway
