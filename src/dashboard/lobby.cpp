#include "dashboard/lobby.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace leeway {
namespace {

constexpr Nanos kReadTime = {5'000'000'000};
constexpr Nanos kSendTime = {10'000'000'000};
constexpr Nanos kDrainTime = {200'000'000};
constexpr size_t kRequestBytesMax = size_t{32} << 10;
constexpr size_t kAnswerBytesMax = size_t{64} << 20;  // of all clients together
constexpr size_t kClientsMax = 256;

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

Lobby::Lobby(const Clock& clock, Arrived arrived) : clock_(clock), arrived_(std::move(arrived)) {
  // Without a pipe, because too many files are open, the thread looks for new clients often.
  if (::pipe2(wake_, O_NONBLOCK | O_CLOEXEC) != 0) wake_[0] = wake_[1] = -1;
  thread_ = std::thread([this] { work(); });
}

Lobby::~Lobby() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    [[maybe_unused]] const ssize_t woken = ::write(wake_[1], "", 1);
  }
  thread_.join();
  for (const Client& client : clients_) ::close(client.socket);
  for (const Client& client : coming_) ::close(client.socket);
  if (wake_[0] >= 0) ::close(wake_[0]);
  if (wake_[1] >= 0) ::close(wake_[1]);
}

void Lobby::read_request(int socket) {
  add({.socket = socket, .phase = Phase::kReading, .until = clock_.now() + kReadTime});
}

void Lobby::send_answer(int socket, std::string answer) {
  add({.socket = socket,
       .phase = Phase::kSending,
       .bytes = std::move(answer),
       .until = clock_.now() + kSendTime});
}

void Lobby::add(Client client) {
  const std::lock_guard lock(mutex_);
  coming_.push_back(std::move(client));
  [[maybe_unused]] const ssize_t woken = ::write(wake_[1], "", 1);  // full: it will wake anyway
}

void Lobby::work() {
  ::pthread_setname_np(::pthread_self(), "dashboard");
  while (true) {
    take_in();
    std::erase_if(clients_, [this](Client& client) { return !advance(client); });
    make_room();
    {
      const std::lock_guard lock(mutex_);
      if (ending_) return;
    }
    wait_for_clients();
  }
}

void Lobby::take_in() {
  const std::lock_guard lock(mutex_);
  for (Client& client : coming_) clients_.push_back(std::move(client));
  coming_.clear();
}

bool Lobby::close_oldest(Phase phase) {
  const auto oldest = std::ranges::find(clients_, phase, &Client::phase);
  if (oldest == clients_.end()) return false;
  ::close(oldest->socket);
  clients_.erase(oldest);
  return true;
}

// A request arrives in milliseconds, so the oldest incomplete one is the slowest.
void Lobby::make_room() {
  while (clients_.size() > kClientsMax) {
    if (!close_oldest(Phase::kReading) && !close_oldest(Phase::kSending)) break;
  }
  size_t bytes = 0;
  for (const Client& client : clients_) bytes += client.bytes.size();
  while (bytes > kAnswerBytesMax && close_oldest(Phase::kSending)) {
    bytes = 0;
    for (const Client& client : clients_) bytes += client.bytes.size();
  }
}

// Until a client can go on, has run out of time, or a new one has come.
void Lobby::wait_for_clients() {
  std::vector<pollfd> asked = {{.fd = wake_[0], .events = POLLIN, .revents = 0}};
  Nanos next = clock_.now() + kSendTime;
  for (const Client& client : clients_) {
    const short events = client.phase == Phase::kSending ? POLLOUT : POLLIN;
    asked.push_back({.fd = client.socket, .events = events, .revents = 0});
    next = std::min(next, client.until);
  }
  int64_t milliseconds = std::max<int64_t>(0, (next - clock_.now()).count / 1'000'000) + 1;
  if (wake_[0] < 0) milliseconds = std::min<int64_t>(milliseconds, 20);
  ::poll(asked.data(), asked.size(), static_cast<int>(milliseconds));
  std::array<char, 256> bytes;
  while (::read(wake_[0], bytes.data(), bytes.size()) > 0) {
  }
}

bool Lobby::advance(Client& client) {
  switch (client.phase) {
    case Phase::kReading:
      if (!read(client)) return false;
      break;
    case Phase::kSending:
      if (!send(client)) return false;
      break;
    case Phase::kDraining:
      if (!drain(client)) return false;
      break;
  }
  if (clock_.now() <= client.until) return true;
  ::close(client.socket);
  return false;
}

bool Lobby::read(Client& client) {
  std::array<char, 4096> buffer;
  while (client.bytes.size() < kRequestBytesMax) {
    const size_t wanted = std::min(buffer.size(), kRequestBytesMax - client.bytes.size());
    const ssize_t got = ::recv(client.socket, buffer.data(), wanted, MSG_DONTWAIT);
    if (got < 0 && would_block()) return true;
    if (got <= 0) {
      ::close(client.socket);
      return false;
    }
    const size_t before = client.bytes.size();
    client.bytes.append(buffer.data(), static_cast<size_t>(got));
    if (client.bytes.find("\r\n\r\n", before < 3 ? 0 : before - 3) != std::string::npos) break;
  }
  arrived_(client.socket, std::move(client.bytes));  // too long: the server refuses it
  return false;
}

bool Lobby::send(Client& client) {
  while (client.sent < client.bytes.size()) {
    const ssize_t sent = ::send(client.socket, client.bytes.data() + client.sent,
                                client.bytes.size() - client.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && would_block()) return true;
    if (sent < 0) {
      ::close(client.socket);
      return false;
    }
    client.sent += static_cast<size_t>(sent);
  }
  // Closing a socket with unread data resets the connection, and the client would lose the answer.
  ::shutdown(client.socket, SHUT_WR);
  client.bytes.clear();
  client.phase = Phase::kDraining;
  client.until = clock_.now() + kDrainTime;
  return drain(client);
}

bool Lobby::drain(Client& client) {
  std::array<char, 4096> buffer;
  for (int i = 0; i < 16; ++i) {  // then others get their turn
    const ssize_t got = ::recv(client.socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && would_block()) return true;
    if (got > 0) continue;
    ::close(client.socket);
    return false;
  }
  return true;
}

}  // namespace leeway
