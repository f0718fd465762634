// The current state of a run folder, for many readers: the first to look reads what is new, and all
// see the same. Nothing is read when there are no readers.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "report/run_follower.h"

namespace leeway {

// kThisProgram: the run has not ended before last_look(), whatever the folder says: that of a
// resumed run still has the end of its last session.
enum class RunWriter { kThisProgram, kAnother };

struct Snapshot {
  std::vector<RunData> runs;  // one
  std::string title;
  std::string data;    // input of the page's script, JSON on one line
  int64_t number = 0;  // changes when there is something new
  bool ended = false;  // and its summary is written, if there is one
};

class LiveRun {
 public:
  explicit LiveRun(const Clock& clock) : clock_(clock) {}

  // Switches to this folder; its run need not have begun.
  void follow(const Path& folder, RunWriter writer);

  // At most about a second old; older if reading is slow, so that reading takes at most 1 % of one
  // core.
  std::shared_ptr<const Snapshot> look();
  // As of now; the run must no longer be writing.
  std::shared_ptr<const Snapshot> last_look();

 private:
  // Files written when a session begins and ends; a change makes what was read before stale.
  struct Stamp {
    std::filesystem::file_time_type config = {};
    std::filesystem::file_time_type summary = {};
    bool operator==(const Stamp&) const = default;
  };

  std::shared_ptr<const Snapshot> newest() const;
  void read(bool anew);
  bool read_more();
  Snapshot make_snapshot() const;

  const Clock& clock_;
  std::mutex reading_;  // held while reading; guards everything but newest_
  Path folder_;
  RunWriter writer_ = RunWriter::kThisProgram;
  std::optional<RunFollower> follower_;
  Stamp stamp_;
  std::string problem_;  // why no more can be read
  Nanos next_look_ = {};
  mutable std::mutex showing_;  // guards newest_
  std::shared_ptr<const Snapshot> newest_;
};

}  // namespace leeway
