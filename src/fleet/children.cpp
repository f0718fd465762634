#include "fleet/children.h"

#include <fmt/format.h>

#include <utility>

namespace leeway {
namespace {

constexpr Nanos kWatchEvery = {100'000'000};
constexpr Nanos kSoon = {60'000'000'000};
constexpr Nanos kEndWithin = {10'000'000'000};
constexpr int64_t kFailuresMax = 3;
constexpr int kUsageStatus = 2;
constexpr int64_t kKillsMax = 10;  // by somebody else, who may have a reason

// The last thing that a child said, which is why it ended.
std::string last_line(const Path& log) {
  const Result<std::string> text = read_text(log);
  if (!text.ok()) return "";
  std::string last;
  size_t begin = 0;
  while (begin < text->size()) {
    const size_t end = std::min(text->find('\n', begin), text->size());
    if (end > begin) last = text->substr(begin, end - begin);
    begin = end + 1;
  }
  return last;
}

}  // namespace

// A child ends with the thread that started it: so one thread starts and watches them all.
void Children::start() {
  thread_ = std::thread([this] { watch(); });
}

void Children::replace(const std::string& name) {
  const std::lock_guard lock(mutex_);
  to_replace_.insert(name);
}

void Children::note_updates(int64_t updates) {
  const std::lock_guard lock(mutex_);
  updates_ = updates;
}

int64_t Children::updates() const {
  const std::lock_guard lock(mutex_);
  return updates_;
}

void Children::let_end() {
  const std::lock_guard lock(mutex_);
  ends_ = true;
}

void Children::end() {
  let_end();
  if (thread_.joinable()) thread_.join();
}

std::optional<Error> Children::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Children::start(size_t at) {
  Watched& watched = watched_[at];
  const int64_t number = ++watched.started;
  const std::string name = number == 1 ? fmt::format("{}", at) : fmt::format("{}.{}", at, number);
  watched.name = "process " + name;
  watched.log = options_.folder / fmt::format("process-{}.log", name);
  watched.since = options_.clock.now();
  watched.updates = updates();
  std::vector<std::string> words = options_.words[at];
  words.insert(words.begin(), "leeway");
  words.push_back("--name");
  words.push_back(watched.name);
  Result<Child> child = Child::start(options_.program, words, watched.log);
  if (child.ok()) {
    watched.child.emplace(std::move(*child));
    return;
  }
  const std::lock_guard lock(mutex_);
  failure_ = child.error();
}

void Children::note_end(size_t at, const Child::End& end) {
  Watched& watched = watched_[at];
  // A run that goes on survives kills; one that fails by itself may do so again and again, while
  // other replicas train.
  const bool soon = options_.clock.now() - watched.since < kSoon;
  const bool goes_on = updates() > watched.updates && (end.signal != 0 || !soon);
  watched.failed = goes_on ? 0 : watched.failed + 1;
  const std::string how = end.signal != 0 ? fmt::format("was ended by signal {}", end.signal)
                                          : fmt::format("ended with status {}", end.status);
  const bool by_itself = end.signal == 0 && end.status != 0;
  const std::string last = by_itself ? last_line(watched.log) : "";
  const std::string said = last.empty() ? "" : ": " + last;
  // A mistake of the user's stays one, however often it is tried.
  if (by_itself && end.status == kUsageStatus) {
    const std::lock_guard lock(mutex_);
    failure_ =
        usage_error(fmt::format("{} {}{}; see {}", watched.name, how, said, watched.log.string()));
    return;
  }
  if (watched.failed >= (end.signal != 0 ? kKillsMax : kFailuresMax)) {
    const std::lock_guard lock(mutex_);
    failure_ = Error{fmt::format("{} {} {} times in a row{}; see {}", watched.name, how,
                                 watched.failed, said, watched.log.string())};
    return;
  }
  if (options_.said) {
    options_.said(fmt::format("{} {}{}; another one takes its place", watched.name, how, said));
  }
}

void Children::watch() {
  watched_.resize(options_.words.size());
  for (size_t at = 0; at < watched_.size(); ++at) start(at);
  std::optional<Nanos> ends_at;
  while (true) {
    std::set<std::string> gone;
    bool ends = false;
    {
      const std::lock_guard lock(mutex_);
      gone = std::exchange(to_replace_, {});
      ends = ends_ || failure_;
    }
    std::vector<const Child*> running;
    for (size_t at = 0; at < watched_.size(); ++at) {
      Watched& watched = watched_[at];
      if (!watched.child) continue;
      const std::optional<Child::End> end = watched.child->ended();
      if (!end && !gone.contains(watched.name)) {
        running.push_back(&*watched.child);
        continue;
      }
      watched.child.reset();  // one that is only silent is killed
      if (ends) continue;
      if (end && options_.ended) options_.ended(watched.name);
      if (end) note_end(at, *end);
      if (!failure()) start(at);
      if (watched.child) running.push_back(&*watched.child);
    }
    if (ends && !ends_at) ends_at = options_.clock.now() + kEndWithin;
    if (ends && (running.empty() || options_.clock.now() > *ends_at)) break;
    Child::wait(running, kWatchEvery);
  }
  watched_.clear();
}

}  // namespace leeway
