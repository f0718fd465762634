// httplib's server behind a Lobby: httplib would give every connection a thread and limit each
// piece of a request; the lobby limits a whole connection in bytes and time, and only whole
// requests get a thread. All of them can be ended at once. Only dashboard.cpp includes it: httplib
// is slow to compile.
#pragma once

#include <httplib.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "dashboard/lobby.h"

namespace leeway {

// One request, which is already here, and its answer, which goes out when it is complete. Only a
// stream of events is sent piece by piece.
class Connection final : public httplib::Stream {
 public:
  Connection(int socket, std::string request, const Clock& clock)
      : socket_(socket), clock_(clock), request_(std::move(request)) {}

  bool is_readable() const override { return read_ < request_.size(); }
  // Whether the client is still there, not whether there is room: write() waits for that.
  bool is_writable() const override {
    char byte = 0;
    const ssize_t got = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  }

  ssize_t read(char* to, size_t size) override {
    const size_t got = request_.copy(to, size, read_);
    read_ += got;
    return static_cast<ssize_t>(got);
  }

  ssize_t write(const char* from, size_t size) override {
    if (streams_) return write_now(from, size);
    const std::string_view piece(from, size);
    answer_ += piece;
    streams_ = piece.starts_with("HTTP/") &&
               piece.find("\r\nTransfer-Encoding: chunked\r\n") != piece.npos;
    if (!streams_) return static_cast<ssize_t>(size);
    const std::string head = std::move(answer_);
    answer_.clear();
    return write_now(head.data(), head.size()) < 0 ? -1 : static_cast<ssize_t>(size);
  }

  // What is still to be sent.
  std::string take_answer() { return std::move(answer_); }

  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  static constexpr Nanos kWriteTime = {10'000'000'000};

  ssize_t write_now(const char* from, size_t size) {
    const Nanos until = clock_.now() + kWriteTime;
    size_t done = 0;
    while (done < size) {
      if (!writable_within(until - clock_.now())) return -1;
      const ssize_t sent = ::send(socket_, from + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return -1;
      done += static_cast<size_t>(std::max<ssize_t>(sent, 0));
    }
    return static_cast<ssize_t>(size);
  }

  bool writable_within(Nanos time) const {
    if (time < Nanos{}) return false;
    pollfd asked = {.fd = socket_, .events = POLLOUT, .revents = 0};
    return ::poll(&asked, 1, static_cast<int>(time.count / 1'000'000)) > 0;
  }

  int socket_;
  const Clock& clock_;
  std::string request_;
  size_t read_ = 0;
  std::string answer_;
  bool streams_ = false;
};

class HttpServer final : public httplib::Server {
 public:
  using Answer = std::function<void(const httplib::Request&, httplib::Response&)>;

  HttpServer(const Clock& clock, const Answer& answer) : clock_(clock) {
    set_pre_routing_handler([answer](const httplib::Request& request, httplib::Response& response) {
      answer(request, response);
      return HandlerResponse::Handled;
    });
    new_task_queue = [] { return new NoQueue; };
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
    const int bound = port == 0 ? bind_to_any_port(host) : bind_to_port(host, port) ? port : -1;
    // httplib lets five wait to be accepted; a sixth would try again only after a second.
    if (bound >= 0) ::listen(svr_sock_, SOMAXCONN);
    return bound;
  }

  void start() {
    thread_ = std::thread([this] {
      ::pthread_setname_np(::pthread_self(), "dashboard");  // its pool's threads inherit it
      pool_ = std::make_unique<httplib::ThreadPool>(kThreads);
      lobby_ = std::make_unique<Lobby>(
          clock_, [this](int socket, std::string request) { serve(socket, std::move(request)); });
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
    // The lobby calls the pool, and the pool the lobby: the lobby still takes what the last threads
    // give it.
    pool_->shutdown();
    lobby_.reset();
    for (const int socket : open_) ::close(socket);  // handed over while the pool ended
  }

 private:
  static constexpr size_t kThreads = 16;
  static constexpr size_t kServedMax = 256;

  // The accepting thread passes a socket on itself: that does not block.
  class NoQueue final : public httplib::TaskQueue {
   public:
    void enqueue(std::function<void()> work) override { work(); }
    void shutdown() override {}
  };

  bool process_and_close_socket(socket_t socket) override {
    lobby_->read_request(socket);
    return true;
  }

  void serve(int socket, std::string request) {
    if (!enter(socket)) {
      ::close(socket);
      return;
    }
    pool_->enqueue([this, socket, request = std::move(request)]() mutable {
      Connection connection(socket, std::move(request), clock_);
      bool closed = false;
      process_request(connection, /*close_connection=*/true, closed, [](httplib::Request& asked) {
        asked.headers.erase("Accept-Encoding");  // compressing costs more than it saves here
        asked.ranges.clear();
      });
      {
        const std::lock_guard lock(mutex_);
        open_.erase(socket);
      }
      lobby_->send_answer(socket, connection.take_answer());
    });
  }

  bool enter(int socket) {
    const std::lock_guard lock(mutex_);
    if (ending_ || open_.size() >= kServedMax) return false;
    open_.insert(socket);
    return true;
  }

  const Clock& clock_;
  std::thread thread_;  // accepts connections
  std::unique_ptr<httplib::ThreadPool> pool_;
  std::unique_ptr<Lobby> lobby_;
  std::mutex mutex_;  // guards the members below
  bool ending_ = false;
  std::set<int> open_;  // served by a thread of the pool
};

}  // namespace leeway
