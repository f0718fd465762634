// httplib's server with stricter limits: httplib limits each piece of a request; this limits a
// whole connection in bytes and time, and can end all of them at once. Only dashboard.cpp includes
// it: httplib is slow to compile.
#pragma once

#include <httplib.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <mutex>
#include <semaphore>
#include <set>
#include <string>
#include <thread>

#include "base/clock.h"

namespace leeway {

// One request and its answer.
class Connection final : public httplib::Stream {
 public:
  Connection(int socket, const Clock& clock)
      : socket_(socket), clock_(clock), read_until_(clock.now() + kReadTime) {}

  bool is_readable() const override { return ready(POLLIN, Nanos{}); }
  // Whether the client is still there, not whether there is room: write() waits for that.
  bool is_writable() const override {
    char byte = 0;
    const ssize_t got = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  }

  ssize_t read(char* to, size_t size) override {
    // Time and size are limited for the whole request, not for each piece of it.
    if (bytes_ >= kRequestBytesMax || !ready(POLLIN, read_until_ - clock_.now())) return -1;
    const ssize_t got = ::recv(socket_, to, std::min(size, kRequestBytesMax - bytes_), 0);
    bytes_ += static_cast<size_t>(std::max<ssize_t>(got, 0));
    return got;
  }

  ssize_t write(const char* from, size_t size) override {
    const Nanos until = clock_.now() + kWriteTime;
    size_t done = 0;
    while (done < size) {
      if (!ready(POLLOUT, until - clock_.now())) return -1;
      const ssize_t sent = ::send(socket_, from + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return -1;
      done += static_cast<size_t>(std::max<ssize_t>(sent, 0));
    }
    return static_cast<ssize_t>(size);
  }

  // Reads what the client still sends, for a moment: closing a socket with unread data resets the
  // connection, and the client would lose the answer.
  void drain() {
    constexpr Nanos kMoment = {200'000'000};
    const Nanos until = clock_.now() + kMoment;
    std::array<char, 4096> buffer;
    while (ready(POLLIN, until - clock_.now())) {
      if (::recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT) <= 0) return;
    }
  }

  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  static constexpr Nanos kReadTime = {5'000'000'000};
  static constexpr Nanos kWriteTime = {10'000'000'000};
  static constexpr size_t kRequestBytesMax = size_t{32} << 10;

  bool ready(short what, Nanos within) const {
    if (within < Nanos{}) return false;
    pollfd asked = {.fd = socket_, .events = what, .revents = 0};
    return ::poll(&asked, 1, static_cast<int>(within.count / 1'000'000)) > 0;
  }

  int socket_;
  const Clock& clock_;
  Nanos read_until_;
  size_t bytes_ = 0;
};

class HttpServer final : public httplib::Server {
 public:
  using Answer = std::function<void(const httplib::Request&, httplib::Response&)>;

  HttpServer(const Clock& clock, const Answer& answer) : clock_(clock) {
    set_pre_routing_handler([answer](const httplib::Request& request, httplib::Response& response) {
      answer(request, response);
      return HandlerResponse::Handled;
    });
    new_task_queue = [] { return new Pool; };
    // Takes over a port whose last user has just ended. httplib's own options would also share a
    // port that is in use.
    set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
  }

  // The port; or -1, with the reason in errno (0: the host name has no address).
  int bind(const std::string& host, int port) {
    errno = 0;
    if (port == 0) return bind_to_any_port(host);
    return bind_to_port(host, port) ? port : -1;
  }

  void start() {
    thread_ = std::thread([this] {
      ::pthread_setname_np(::pthread_self(), "dashboard");  // its pool's threads inherit it
      listen_after_bind();
      svr_sock_ = INVALID_SOCKET;  // it is closed, and its number may be reused
    });
  }

  ~HttpServer() override {
    if (!thread_.joinable()) return;
    ::shutdown(svr_sock_, SHUT_RDWR);  // not stop(), which does nothing until the thread listens
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      for (const int socket : open_) ::shutdown(socket, SHUT_RDWR);  // wakes threads that wait
    }
    thread_.join();
  }

 private:
  static constexpr size_t kThreads = 16;
  static constexpr int kAcceptedMax = 80;  // more connections wait in the kernel's queue

  class Pool final : public httplib::ThreadPool {
   public:
    Pool() : ThreadPool(kThreads) {}
    void enqueue(std::function<void()> work) override {
      room_.acquire();
      ThreadPool::enqueue([this, work = std::move(work)] {
        work();
        room_.release();
      });
    }

   private:
    std::counting_semaphore<> room_{kAcceptedMax};
  };

  bool process_and_close_socket(socket_t socket) override {
    if (enter(socket)) {
      Connection connection(socket, clock_);
      bool closed = false;
      process_request(connection, /*close_connection=*/true, closed, [](httplib::Request& request) {
        request.headers.erase("Accept-Encoding");  // compressing costs more than it saves here
        request.ranges.clear();
      });
      ::shutdown(socket, SHUT_WR);
      connection.drain();
      const std::lock_guard lock(mutex_);
      open_.erase(socket);
    }
    ::close(socket);
    return true;
  }

  bool enter(int socket) {
    const std::lock_guard lock(mutex_);
    if (ending_) return false;
    open_.insert(socket);
    return true;
  }

  const Clock& clock_;
  std::thread thread_;  // accepts connections
  std::mutex mutex_;    // guards the members below
  bool ending_ = false;
  std::set<int> open_;
};

}  // namespace leeway
