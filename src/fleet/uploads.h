// Files of shards that arrive part by part. Each becomes a file of the host's own store when it is
// complete: what is in it is checked, and written as a worker of this process would have.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/files.h"
#include "drivers/loop/background.h"
#include "drivers/loop/post.h"
#include "fleet/note.h"
#include "worker/shard_store.h"

namespace leeway {

class Uploads {
 public:
  // `answer` is called from a thread of its own.
  using Answer = std::function<void(ProcessId to, const Note& note)>;
  Uploads(Path folder, ShardStore& store, Answer answer);
  ~Uploads();

  // A part of a file; `may_save`: whether its sender has the place that the file is of.
  void take(ProcessId from, const Note& note, const std::function<bool(WorkerId)>& may_save);
  // What this process has sent so far is dropped.
  void forget(ProcessId from);

 private:
  struct Upload {
    int64_t number = 0;
    int64_t parts = 0;  // so far
    Path file;
    WorkerId worker;
  };
  void store(ProcessId from, const Upload& upload);

  Path folder_;
  ShardStore& store_;
  Answer answer_;
  std::map<ProcessId, Upload> uploads_;  // one at a time from each
  Background background_;
};

}  // namespace leeway
