// A fleet's wire in memory: processes of one address space, as many as a test wants, whose parcels
// arrive at once. The test decides who is heard, and with which key somebody comes.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fleet/wire.h"

namespace leeway {

class MemoryNet {
 public:
  WireMaker wire(ProcessId self) {
    return [this, self](Post::Handlers handlers) -> Result<std::unique_ptr<Wire>> {
      const std::lock_guard lock(mutex_);
      ends_[self] = std::move(handlers);
      return std::unique_ptr<Wire>(std::make_unique<MemoryWire>(*this, self));
    };
  }
  void set_key(ProcessId process, std::string key) {
    const std::lock_guard lock(mutex_);
    keys_[process] = std::move(key);
  }
  // Nothing from or to it arrives any more, and the host notices. Others never do.
  void cut(ProcessId process) {
    const std::lock_guard lock(mutex_);
    cut_.insert(process);
    if (const auto host = ends_.find(kHost); host != ends_.end()) host->second.silent(process);
  }
  // Of all these, the host hears nothing, as if its own line were cut; then it does again.
  void cut_host(const std::vector<ProcessId>& others) {
    const std::lock_guard lock(mutex_);
    deaf_ = true;
    for (const ProcessId other : others) ends_.at(kHost).silent(other);
  }
  void mend_host(const std::vector<ProcessId>& others, Nanos now) {
    const std::lock_guard lock(mutex_);
    deaf_ = false;
    heard_since_ = now;
    for (const ProcessId other : others) ends_.at(kHost).heard_again(other);
  }
  // One does not hear the other any more.
  void estrange(ProcessId one, ProcessId other) {
    const std::lock_guard lock(mutex_);
    if (const auto end = ends_.find(one); end != ends_.end()) end->second.silent(other);
  }

 private:
  class MemoryWire final : public Wire {
   public:
    MemoryWire(MemoryNet& net, ProcessId self) : net_(net), self_(self) {}
    ~MemoryWire() override { close(); }
    void send(ProcessId to, Parcel parcel) override { net_.carry(self_, to, std::move(parcel)); }
    void adopt(const Directory&) override {}
    void forget(ProcessId process) override { net_.forget(self_, process); }
    std::optional<Stranger> stranger(ProcessId process) const override {
      return net_.stranger(process);
    }
    void shape(const NetworkOptions&) override {}
    std::string address() const override { return "tcp://memory:1"; }
    Heard heard() const override { return net_.heard(); }
    void close() override { net_.leave(self_); }

   private:
    MemoryNet& net_;
    ProcessId self_;
  };

  // No handler sends, so none comes back here.
  void carry(ProcessId from, ProcessId to, Parcel parcel) {
    const std::lock_guard lock(mutex_);
    const auto end = ends_.find(to);
    if (end == ends_.end() || cut_.contains(from) || cut_.contains(to)) return;
    end->second.received(from, std::move(parcel));
  }
  // One whom the host has forgotten finds that out, and may come anew.
  void forget(ProcessId by, ProcessId process) {
    const std::lock_guard lock(mutex_);
    if (process == kHost) {
      cut_.erase(by);
      return;
    }
    cut_.insert(process);
    if (const auto end = ends_.find(process); end != ends_.end() && end->second.forgotten) {
      end->second.forgotten(by);
    }
  }
  std::optional<Stranger> stranger(ProcessId process) const {
    const std::lock_guard lock(mutex_);
    const auto key = keys_.find(process);
    return Stranger{.key = key == keys_.end() ? "" : key->second, .host = "memory"};
  }
  // Never, or all the time.
  Heard heard() const {
    const std::lock_guard lock(mutex_);
    return {.at = deaf_ ? Nanos{} : Nanos{INT64_MAX / 2}, .since = heard_since_};
  }
  void leave(ProcessId process) {
    const std::lock_guard lock(mutex_);
    ends_.erase(process);
  }

  mutable std::mutex mutex_;
  std::map<ProcessId, Post::Handlers> ends_;
  std::map<ProcessId, std::string> keys_;
  std::set<ProcessId> cut_;
  bool deaf_ = false;
  Nanos heard_since_ = {};
};

}  // namespace leeway
