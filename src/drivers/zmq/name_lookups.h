// Names of hosts become numbers on threads of their own: a name server may take half a minute to
// answer, and signs of life are due meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace leeway::zmq {

class NameLookups {
 public:
  // Called on any thread. `attempt`: the next one takes the next address that a name has.
  using Resolve = std::function<Result<std::string>(const std::string& address, size_t attempt)>;
  struct Answer {
    uint64_t number = 0;  // of the question
    Result<std::string> address;
  };

  // `woken`: called when there is an answer, on another thread.
  NameLookups(Resolve resolve, std::function<void()> woken);
  ~NameLookups() { abandon(); }
  NameLookups(const NameLookups&) = delete;
  NameLookups& operator=(const NameLookups&) = delete;

  // Returns the number of the question.
  uint64_t ask(const std::string& address, size_t attempt);
  std::vector<Answer> take_answers();
  // Lookups that are under way are not waited for, and nobody is woken any more.
  void abandon();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // with the threads, which may outlive this object
  uint64_t asked_ = 0;
};

}  // namespace leeway::zmq
