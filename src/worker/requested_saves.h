// Checkpoints that the user asks for while the session goes on. The coordinator asks stage 0 of one
// replica to name an update, and passes it on; stage 0 of each other replica keeps to it, or takes
// the first one that it still can; the other stages are told. That message may be overtaken, so an
// activation says which save comes before it, and a stage that has not heard of that save yet waits
// for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace leeway {

class RequestedSaves {
 public:
  // A request that stage 0 has heard of: to name an update (nothing), or the update that another
  // replica has named.
  using Request = std::optional<int64_t>;

  // Each question is answered once.
  void want_name(int64_t question) {
    name_wanted_ = name_wanted_ || question > newest_question_;
    newest_question_ = std::max(newest_question_, question);
  }
  // A message that comes twice, and news of it from elsewhere, change nothing.
  void hear(int64_t named) {
    if (named <= newest_named_) return;
    newest_named_ = named;
    if (named > since_) heard_.push_back(named);
  }
  std::vector<Request> take_requests() {
    std::vector<Request> requests = std::exchange(heard_, {});
    if (std::exchange(name_wanted_, false)) requests.push_back(std::nullopt);
    return requests;
  }
  // The newest update that any replica has named for all; 0: none.
  int64_t newest_named() const { return newest_named_; }
  void name(int64_t update) { newest_named_ = std::max(newest_named_, update); }

  // The replica goes on after this update: what its stages were told before, not all of them know,
  // and what was to be saved by then is none of its business.
  void restart(int64_t update) {
    since_ = update;
    checkpoints_.clear();
    unheard_.clear();
    std::erase_if(heard_, [update](const Request& named) { return named && *named <= update; });
  }

  // The state after `update` belongs to the checkpoint that the first replica named.
  void save_at(int64_t update, int64_t checkpoint) {
    checkpoints_.emplace(update, checkpoint);
    unheard_.erase(update);
  }
  // A later microbatch has arrived that comes after a save at `update`.
  void expect_save_at(int64_t update) {
    if (!checkpoints_.contains(update)) unheard_.insert(update);
  }
  // Whether all saves before this update are known.
  bool may_begin(int64_t update) const { return unheard_.empty() || update <= *unheard_.begin(); }
  std::optional<int64_t> checkpoint_at(int64_t update) const {
    const auto found = checkpoints_.find(update);
    return found == checkpoints_.end() ? std::nullopt : std::optional(found->second);
  }
  // The last save before this update is made; 0: none.
  int64_t last_before(int64_t update) const {
    const auto found = checkpoints_.lower_bound(update);
    return found == checkpoints_.begin() ? 0 : std::prev(found)->first;
  }
  // The first update after this one that ends with a save, if there is one.
  std::optional<int64_t> next_after(int64_t update) const {
    const auto found = checkpoints_.upper_bound(update);
    return found == checkpoints_.end() ? std::nullopt : std::optional(found->first);
  }

 private:
  bool name_wanted_ = false;
  int64_t newest_question_ = -1;
  int64_t newest_named_ = 0;
  int64_t since_ = 0;  // its replica has restarted
  std::vector<Request> heard_;
  std::map<int64_t, int64_t> checkpoints_;  // by update
  std::set<int64_t> unheard_;               // updates whose save was expected but not named yet
};

}  // namespace leeway
