// A host that trains as well: with a guest of its own, on another thread of the same program. It
// opens late, once the folder of the run is there: before that, nobody could begin.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "fleet/guest.h"
#include "fleet/host.h"
#include "run/crew.h"

namespace leeway {

// take_part(), with what it throws as an error.
Result<GuestEnd> take_part_safely(const GuestOptions& options);

// For a guest that gets the same signals as its host, which ends the run for all: only one that has
// never heard of the host goes on its own.
GuestOptions goes_with_host(GuestOptions options);

// Of the workers of a mesh, shared out as evenly as it goes.
constexpr int64_t share_of(int64_t workers, int64_t rank, int64_t ranks) {
  return workers * (rank + 1) / ranks - workers * rank / ranks;
}

class HostAndGuest final : public Crew {
 public:
  explicit HostAndGuest(const Clock& clock) : clock_(clock) {}
  ~HostAndGuest() override { end(); }
  HostAndGuest(const HostAndGuest&) = delete;
  HostAndGuest& operator=(const HostAndGuest&) = delete;

  // `failed` is called on the guest's thread.
  Status begin(HostOptions host, GuestOptions guest, std::function<void(const Error&)> failed = {});
  bool has_begun() const { return host_ != nullptr; }
  Status prepare(const SessionStart& start) override;
  Status run(Recorder& recorder, ShardStore& shards) override;
  const Clock& clock() const override { return clock_; }
  // The guest's.
  std::optional<Error> failure() const;
  void end();

 private:
  const Clock& clock_;
  std::unique_ptr<Host> host_;
  std::atomic<bool> ended_ = false;
  std::thread guest_;
  mutable std::mutex mutex_;  // guards:
  std::optional<Error> failure_;
};

}  // namespace leeway
