// Where a guest puts what its workers save: on its own disk, and from there to the host's, part by
// part. Its own copy lets it come back without the network, if it is started again soon.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/files.h"
#include "fleet/note.h"
#include "fleet/wire.h"
#include "worker/shard_store.h"

namespace leeway {

class RemoteShards final : public ShardStore {
 public:
  // `name`: of this process, for people who have to find the disk.
  RemoteShards(Path folder, std::string name, Wire& wire, Nanos patience = {120'000'000'000})
      : folder_(std::move(folder)), name_(std::move(name)), wire_(wire), patience_(patience) {}

  // Blocks until the host has it on disk.
  Result<Stored> store(const StageState& state) override;
  std::shared_ptr<const StageState> newest_of(WorkerId worker) override;
  bool wait_to_store(const Error& error) override;

  // From any thread: what the host says of it.
  void hear(const Note& note);
  // Nothing is sent to a host that is silent: it would only pile up here.
  void set_host_heard(bool heard);
  // Another host has taken over: what it was told so far is lost.
  void start_over();
  // The host is gone, or the session over: nobody waits any longer.
  void give_up(const std::string& why);

 private:
  Result<Stored> send(const Path& file, WorkerId worker, int64_t upload);
  bool is_answered();
  bool waits_for_host(const Path& file);
  void remove_older(WorkerId worker, const std::string& newest) const;

  Path folder_;
  std::string name_;
  Wire& wire_;
  Nanos patience_;  // with a host that says nothing
  std::mutex mutex_;
  std::condition_variable heard_;
  int64_t upload_ = 0;  // the newest
  int64_t taken_ = 0;   // parts of it
  std::optional<Result<Stored>> answer_;
  bool host_heard_ = true;
  std::set<Path> unsent_;  // on the own disk, since the host is silent: not written at every try
  std::string given_up_;
  int tries_ = 0;  // at a last state
};

}  // namespace leeway
