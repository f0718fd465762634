// Two processes that measure something together, and a way to tell each other where they are.
#pragma once

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>

namespace leeway {

// An end of a line between two processes, for words.
class Channel {
 public:
  explicit Channel(int file) : file_(file) {}
  void tell(const std::string& word) const {
    const std::string line = word + '\n';
    if (::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
  }
  // The other one has ended without a word: nothing is left to measure.
  std::string hear() const {
    std::string word;
    for (char next = 0; ::read(file_, &next, 1) == 1 && next != '\n';) word += next;
    if (word.empty()) std::_Exit(1);
    return word;
  }

 private:
  int file_;
};

// Processor time of all threads of this process so far.
inline double processor_seconds() {
  rusage used = {};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// What a process does with the other one, and what it has to say at the end.
using Part = std::function<std::string(const Channel& other)>;

// Both in processes of their own, which are forked before anybody has a thread. Their last words.
inline std::array<std::string, 2> in_two_processes(const std::array<Part, 2>& parts) {
  std::array<int, 2> between = {};
  std::array<int, 2> home = {};
  std::array<std::string, 2> words;
  std::array<pid_t, 2> children = {};
  std::array<int, 2> ends = {};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, between.data()) != 0) std::abort();
  for (size_t at = 0; at < parts.size(); ++at) {
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, home.data()) != 0) std::abort();
    children[at] = ::fork();
    if (children[at] < 0) std::abort();
    if (children[at] == 0) {
      ::close(between[1 - at]);
      ::close(home[0]);
      Channel(home[1]).tell(parts[at](Channel(between[at])));
      std::_Exit(0);  // without destructors of what the parent made
    }
    ::close(home[1]);
    ends[at] = home[0];
  }
  for (const int end : between) ::close(end);
  for (size_t at = 0; at < parts.size(); ++at) {
    words[at] = Channel(ends[at]).hear();
    ::close(ends[at]);
    int status = 0;
    ::waitpid(children[at], &status, 0);
  }
  return words;
}

}  // namespace leeway
