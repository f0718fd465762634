#include "fleet/zmq_wire.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "drivers/zmq/endpoint.h"

namespace leeway {
namespace {

Nanos from_milliseconds(double milliseconds) { return Nanos::rounded(milliseconds * 1e6); }

class ZmqWire final : public Wire {
 public:
  ZmqWire(ZmqWireOptions options, std::unique_ptr<zmq::Endpoint> endpoint)
      : options_(std::move(options)), endpoint_(std::move(endpoint)) {
    adopt({});
  }

  void send(ProcessId to, Parcel parcel) override { endpoint_->send(to, std::move(parcel)); }
  void forget(ProcessId process) override { endpoint_->forget(process); }
  std::string address() const override { return endpoint_->address(); }
  Heard heard() const override { return endpoint_->heard(); }
  void close() override { endpoint_->close(); }

  // A host is dialed by all.
  void adopt(const Directory& directory) override {
    const std::lock_guard lock(mutex_);
    if (directory.number < std::exchange(newest_, std::max(newest_, directory.number))) return;
    const bool hosts = options_.self == kHost;
    std::vector<zmq::Peer> peers;
    if (!hosts) {
      peers.push_back(
          {.id = kHost, .address = options_.host_address, .key = options_.host_key, .dial = true});
    }
    for (const Member& member : directory.members) {
      if (member.id == options_.self) continue;
      const bool dials = !hosts && directory.dials(options_.self, member.id);
      peers.push_back(
          {.id = member.id, .address = member.address, .key = member.key, .dial = dials});
    }
    endpoint_->set_peers(std::move(peers));
  }

  std::optional<Stranger> stranger(ProcessId process) const override {
    const auto visitor = endpoint_->visitor(process);
    return visitor ? std::optional(Stranger{visitor->key, visitor->host}) : std::nullopt;
  }

  void shape(const NetworkOptions& network) override {
    const EmulatedLine& emulate = network.emulate;
    double mbit = emulate.bandwidth_mbit;
    if (network.cap_mbit > 0) mbit = mbit > 0 ? std::min(mbit, network.cap_mbit) : network.cap_mbit;
    endpoint_->shape({.latency = from_milliseconds(emulate.latency_ms),
                      .bytes_per_second = mbit * 1e6 / 8,
                      .jitter = from_milliseconds(emulate.jitter_ms),
                      .loss = emulate.loss},
                     from_milliseconds(static_cast<double>(network.heartbeat_ms)));
  }

 private:
  std::mutex mutex_;
  int64_t newest_ = 0;  // directory
  ZmqWireOptions options_;
  std::unique_ptr<zmq::Endpoint> endpoint_;
};

}  // namespace

WireMaker zmq_wire(ZmqWireOptions options) {
  return [options = std::move(options)](Post::Handlers handlers) -> Result<std::unique_ptr<Wire>> {
    LEEWAY_ASSIGN(std::unique_ptr<zmq::Endpoint> endpoint,
                  zmq::Endpoint::open({.self = options.self,
                                       .listen = options.listen,
                                       .keys = options.keys,
                                       .allows = options.allows,
                                       .takes_visitors = options.self == kHost,
                                       .silent_beats = options.silent_beats,
                                       .clock = options.clock,
                                       .handlers = std::move(handlers)}));
    return std::unique_ptr<Wire>(std::make_unique<ZmqWire>(options, std::move(endpoint)));
  };
}

}  // namespace leeway
