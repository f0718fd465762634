// A TCP proxy on loopback that counts what passes, and cuts all its connections after a given
// number of bytes: in the middle of a frame, a handshake or anything else.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"

namespace leeway {

inline sockaddr_in loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A socket that is connected to this port.
inline int dial_loopback(uint16_t port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  const int status =
      ::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  LEEWAY_CHECK(status == 0, "a port of this test's own");
  return descriptor;
}

inline uint16_t port_of(const std::string& address) {
  return static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

class TcpProxy {
 public:
  // How many bytes may pass until the next cut, both ways together; none: no cut.
  using NextCut = std::function<std::optional<size_t>()>;

  TcpProxy(uint16_t target, NextCut next_cut) : target_(target), next_cut_(std::move(next_cut)) {
    left_ = next_cut_();
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    const auto bound = ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    LEEWAY_CHECK(bound == 0 && ::listen(listener_, 16) == 0, "any port will do");
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { work(); });
  }
  ~TcpProxy() {
    const uint64_t one = 1;
    LEEWAY_CHECK(::write(wake_, &one, sizeof one) == sizeof one, "an eventfd of our own");
    thread_.join();
    cut();
    ::close(listener_);
    ::close(wake_);
  }
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  std::string address() const { return "tcp://127.0.0.1:" + std::to_string(port_); }
  int64_t bytes_to_target() const { return to_target_; }
  int64_t bytes_from_target() const { return from_target_; }
  int cuts() const { return cuts_; }

 private:
  struct Direction {
    int from = -1;
    int to = -1;
    std::atomic<int64_t>* count = nullptr;
    std::vector<char> waiting = {};
  };
  using Pair = std::array<Direction, 2>;

  void work() {
    while (true) {
      std::vector<pollfd> watched = {{wake_, POLLIN, 0}, {listener_, POLLIN, 0}};
      for (const Pair& pair : pairs_) {
        for (const Direction& way : pair) {
          const bool full = !way.waiting.empty();
          const int events = full ? POLLOUT : POLLIN;
          watched.push_back({full ? way.to : way.from, static_cast<short>(events), 0});
        }
      }
      ::poll(watched.data(), watched.size(), -1);
      if (watched[0].revents != 0) return;
      size_t at = 2;
      for (auto pair = pairs_.begin(); pair != pairs_.end();) {
        bool open = true;
        for (Direction& way : *pair) {
          if (watched[at++].revents != 0) open = open && forward(way);
        }
        if (left_ == size_t{0}) break;
        pair = open ? std::next(pair) : hang_up(pair);
      }
      if (left_ == size_t{0}) {
        cut();
        ++cuts_;
        left_ = next_cut_();
      } else if (watched[1].revents != 0) {
        accept();
      }
    }
  }
  void accept() {
    const int from = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (from < 0) return;
    const int to = dial_loopback(target_);
    for (const int each : {from, to}) ::fcntl(each, F_SETFL, O_NONBLOCK);
    pairs_.push_back({Direction{from, to, &to_target_}, Direction{to, from, &from_target_}});
  }
  // False: the connection is over.
  bool forward(Direction& way) {
    if (way.waiting.empty()) {
      std::array<char, 65536> buffer = {};
      const size_t wanted = left_ ? std::min(*left_, buffer.size()) : buffer.size();
      const ssize_t size = ::recv(way.from, buffer.data(), wanted, 0);
      if (size == 0 || (size < 0 && errno != EAGAIN)) return false;
      if (size < 0) return true;
      way.waiting.assign(buffer.begin(), buffer.begin() + size);
      *way.count += size;
      if (left_) *left_ -= static_cast<size_t>(size);
    }
    const ssize_t size = ::send(way.to, way.waiting.data(), way.waiting.size(), MSG_NOSIGNAL);
    if (size < 0) return errno == EAGAIN;
    way.waiting.erase(way.waiting.begin(), way.waiting.begin() + size);
    return true;
  }
  std::list<Pair>::iterator hang_up(std::list<Pair>::iterator pair) {
    for (const Direction& way : *pair) ::close(way.from);
    return pairs_.erase(pair);
  }
  void cut() {
    while (!pairs_.empty()) hang_up(pairs_.begin());
  }

  uint16_t target_;
  NextCut next_cut_;
  std::optional<size_t> left_;
  int listener_ = -1;
  int wake_ = eventfd(0, EFD_CLOEXEC);
  uint16_t port_ = 0;
  std::list<Pair> pairs_;
  std::atomic<int64_t> to_target_ = 0;
  std::atomic<int64_t> from_target_ = 0;
  std::atomic<int> cuts_ = 0;
  std::thread thread_;
};

}  // namespace leeway
