// Where clients wait: one thread reads all requests and sends all answers, each as fast as its
// client allows. A client that trickles bytes holds up nobody, because only whole requests get a
// thread.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace leeway {

class Lobby {
 public:
  // The head of a request, with what came after it; whoever gets it owes the socket an answer.
  // Called by the lobby's thread, so it must not block.
  using Arrived = std::function<void(int socket, std::string request)>;

  Lobby(const Clock& clock, Arrived arrived);
  ~Lobby();  // closes all sockets that are here
  Lobby(const Lobby&) = delete;
  Lobby& operator=(const Lobby&) = delete;

  // Both take the socket over and return at once. If too many are here, the one that has been slow
  // for longest is closed.
  void read_request(int socket);
  void send_answer(int socket, std::string answer);  // and closes the socket

 private:
  enum class Phase { kReading, kSending, kDraining };
  struct Client {
    int socket = -1;
    Phase phase = Phase::kReading;
    std::string bytes = {};  // read so far, or to send
    size_t sent = 0;
    Nanos until = {};
  };

  void add(Client client);
  void work();
  void take_in();
  void make_room();
  bool close_oldest(Phase phase);
  void wait_for_clients();
  bool advance(Client& client);  // false: it is done, and closed or handed over
  bool read(Client& client);
  bool send(Client& client);
  bool drain(Client& client);

  const Clock& clock_;
  Arrived arrived_;
  int wake_[2] = {-1, -1};     // a pipe: a byte in it wakes the thread
  std::list<Client> clients_;  // the thread's own; the oldest first
  std::mutex mutex_;           // guards the members below
  std::vector<Client> coming_;
  bool ending_ = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace leeway
