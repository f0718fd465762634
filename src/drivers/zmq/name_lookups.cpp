#include "drivers/zmq/name_lookups.h"

#include <mutex>
#include <thread>
#include <utility>

namespace leeway::zmq {

struct NameLookups::Shared {
  Resolve resolve;
  std::mutex mutex;  // guards:
  std::function<void()> woken;
  std::vector<Answer> answers;
};

NameLookups::NameLookups(Resolve resolve, std::function<void()> woken)
    : shared_(std::make_shared<Shared>()) {
  shared_->resolve = std::move(resolve);
  shared_->woken = std::move(woken);
}

void NameLookups::abandon() {
  const std::lock_guard lock(shared_->mutex);
  shared_->woken = {};
}

// A thread for each, so that a slow name keeps no other one waiting. There are few: most addresses
// are numbers, and of a peer at most one lookup is waited for.
uint64_t NameLookups::ask(const std::string& address, size_t attempt) {
  const uint64_t number = ++asked_;
  std::thread([shared = shared_, number, address, attempt] {
    Result<std::string> found = shared->resolve(address, attempt);
    const std::lock_guard lock(shared->mutex);
    if (!shared->woken) return;
    shared->answers.push_back({number, std::move(found)});
    shared->woken();
  }).detach();
  return number;
}

std::vector<NameLookups::Answer> NameLookups::take_answers() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->answers, {});
}

}  // namespace leeway::zmq
