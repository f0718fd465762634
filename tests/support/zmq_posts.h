// Posts over TCP on loopback, in one program, and a driver whose processes have nothing else
// between them.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "drivers/threads/wall_clock.h"
#include "drivers/zmq/endpoint.h"
#include "processes.h"

namespace leeway {

// Under a sanitizer, meshes over sockets would take longer than everything else; "processes" runs
// the same code without them, and tests/unit/drivers_zmq the sockets.
#if defined(LEEWAY_ZMQ) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LEEWAY_MESH_OVER_TCP 1
#endif

#ifdef LEEWAY_ZMQ
// Of two processes the one with the larger id dials.
inline std::vector<std::unique_ptr<Post>> open_zmq_posts(std::vector<Post::Handlers> handlers,
                                                         bool encrypted,
                                                         const zmq::LineOptions& line = {}) {
  static const threads::WallClock clock;
  std::vector<zmq::Peer> peers;
  std::vector<zmq::Endpoint*> endpoints;
  std::vector<std::unique_ptr<Post>> posts;
  for (size_t at = 0; at < handlers.size(); ++at) {
    const ProcessId self = {static_cast<int64_t>(at)};
    std::optional<zmq::KeyPair> keys;
    if (encrypted) keys = zmq::new_key_pair().value();
    auto endpoint = zmq::Endpoint::open({.self = self,
                                         .listen = "tcp://127.0.0.1:*",
                                         .keys = keys,
                                         .line = line,
                                         .clock = clock,
                                         .handlers = std::move(handlers[at])})
                        .value();
    peers.push_back(
        {.id = self, .address = endpoint->address(), .key = encrypted ? keys->public_key : ""});
    endpoints.push_back(endpoint.get());
    posts.push_back(std::move(endpoint));
  }
  for (size_t at = 0; at < endpoints.size(); ++at) {
    for (size_t other = 0; other < peers.size(); ++other) peers[other].dial = other < at;
    endpoints[at]->set_peers(peers);
  }
  return posts;
}

// As one_process_each(), with keys.
inline std::unique_ptr<Driver> one_process_each_over_tcp(int64_t stages) {
  return std::make_unique<Processes>(Processes::Options{
      .process_of = [stages](WorkerId id) { return 1 + Mesh{.stages = stages}.index(id); },
      .posts =
          [](std::vector<Post::Handlers> handlers) {
            return open_zmq_posts(std::move(handlers), /*encrypted=*/true);
          }});
}
#endif

}  // namespace leeway
