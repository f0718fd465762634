// A run folder as it stands, for many readers: whoever looks first reads what is new, and all see
// the same. Where nobody looks nothing is read.
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

// This program says itself when its run has ended: of a run that is resumed the folder says so when
// it begins.
enum class RunWriter { kThisProgram, kAnother };

struct Snapshot {
  std::vector<RunData> runs;  // one
  std::string title;
  std::string data;    // what the page's script shows, as JSON on one line
  int64_t number = 0;  // another one: there is something new
  bool ended = false;  // and its summary is written, if there will be one
};

class LiveRun {
 public:
  explicit LiveRun(const Clock& clock) : clock_(clock) {}

  // From here on it is this folder; the run in it need not have begun.
  void follow(const Path& folder, RunWriter writer);

  // About a second old at most; older where reading takes long, so that looking takes at most a
  // hundredth of one core.
  std::shared_ptr<const Snapshot> look();
  // As of now: whoever wrote, writes no more.
  std::shared_ptr<const Snapshot> last_look();

 private:
  // Written when a session begins and when it ends: what was read of them before does not hold.
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
  std::mutex reading_;  // held while reading; guards all but newest_
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
