// Bytes between two processes without us: through ZeroMQ alone, and through TCP alone. The sender
// copies nothing, and nobody looks at what arrives.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "drivers/zmq/keys.h"
#include "two_processes.h"

namespace leeway {

struct Load {
  int64_t parcels = 0;
  size_t parcel_bytes = 0;
  double bytes() const { return static_cast<double>(parcels) * static_cast<double>(parcel_bytes); }
};

class BarePair {
 public:
  BarePair(const Channel& other, bool encrypted, bool dials) {
    socket_.set(::zmq::sockopt::linger, 0);
    if (!dials) {
      std::string key = "-";
      if (encrypted) {
        const zmq::KeyPair keys = zmq::new_key_pair().value();
        socket_.set(::zmq::sockopt::curve_server, true);
        socket_.set(::zmq::sockopt::curve_secretkey, keys.secret_key);
        key = keys.public_key;
      }
      socket_.bind("tcp://127.0.0.1:*");
      other.tell(socket_.get(::zmq::sockopt::last_endpoint));
      other.tell(key);
      return;
    }
    const std::string address = other.hear();
    const std::string server_key = other.hear();
    if (encrypted) {
      const zmq::KeyPair keys = zmq::new_key_pair().value();
      socket_.set(::zmq::sockopt::curve_serverkey, server_key);
      socket_.set(::zmq::sockopt::curve_publickey, keys.public_key);
      socket_.set(::zmq::sockopt::curve_secretkey, keys.secret_key);
    }
    socket_.connect(address);
  }

  // In messages of at most this size.
  void send(std::span<const std::byte> buffer, size_t at_most) {
    const auto keep = [](void*, void*) {};
    for (; !buffer.empty(); buffer = buffer.subspan(std::min(at_most, buffer.size()))) {
      const size_t size = std::min(at_most, buffer.size());
      ::zmq::message_t message(const_cast<std::byte*>(buffer.data()), size, keep);
      socket_.send(message, ::zmq::send_flags::none).value();
    }
  }
  void receive(size_t bytes) {
    for (::zmq::message_t message; bytes > 0; bytes -= message.size()) {
      socket_.recv(message).value();
    }
  }

 private:
  ::zmq::context_t context_{1};
  ::zmq::socket_t socket_{context_, ::zmq::socket_type::pair};
};

// A connection of TCP on loopback.
class BareTcp {
 public:
  BareTcp(const Channel& other, bool dials) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    file_ = ::socket(AF_INET, SOCK_STREAM, 0);
    if (dials) {
      address.sin_port = htons(static_cast<uint16_t>(std::stoi(other.hear())));
      if (::connect(file_, at, size) != 0) std::abort();
      return;
    }
    if (::bind(file_, at, size) != 0 || ::listen(file_, 1) != 0) std::abort();
    ::getsockname(file_, at, &size);
    other.tell(std::to_string(ntohs(address.sin_port)));
    const int door = file_;
    file_ = ::accept(door, nullptr, nullptr);
    ::close(door);
  }
  ~BareTcp() { ::close(file_); }
  BareTcp(const BareTcp&) = delete;
  BareTcp& operator=(const BareTcp&) = delete;

  void send(const std::vector<std::byte>& buffer) const {
    for (size_t at = 0; at < buffer.size();) {
      const ssize_t count = ::send(file_, buffer.data() + at, buffer.size() - at, 0);
      if (count <= 0) std::_Exit(1);
      at += static_cast<size_t>(count);
    }
  }
  void receive(std::vector<std::byte>& buffer) const {
    for (size_t at = 0; at < buffer.size();) {
      const ssize_t count = ::recv(file_, buffer.data() + at, buffer.size() - at, 0);
      if (count <= 0) std::_Exit(1);
      at += static_cast<size_t>(count);
    }
  }

 private:
  int file_ = -1;
};

}  // namespace leeway
