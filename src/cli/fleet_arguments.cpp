#include "cli/fleet_arguments.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <span>

#include "base/hash.h"
#include "dashboard/access.h"
#include "drivers/threads/wall_clock.h"
#include "terminal/progress.h"
#include "terminal/say.h"

namespace leeway::cli {

std::string this_machine() {
  std::array<char, 256> host = {};
  static_cast<void>(::gethostname(host.data(), host.size() - 1));
  return host.data();
}

ProcessId new_process_id(const Clock& clock) {
  const std::array<int64_t, 3> name = {::getpid(), clock.now().count,
                                       static_cast<int64_t>(threads::unix_seconds() * 1e6)};
  const uint64_t bits = hash_bytes(std::as_bytes(std::span(name)), hash_text(this_machine()));
  return {static_cast<int64_t>(bits >> 12) | 1};  // a number that every reader of JSON can hold
}

bool is_here_only(const std::string& address) {
  constexpr std::string_view kPrefix = "tcp://";
  const size_t colon = address.rfind(':');
  if (!address.starts_with(kPrefix) || colon < kPrefix.size()) return false;
  std::string_view host = std::string_view(address).substr(kPrefix.size(), colon - kPrefix.size());
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return is_loopback(host);
}

Status check_ranks(const Recipe& recipe, int64_t ranks) {
  const int64_t workers = recipe.mesh.stages * recipe.mesh.replicas;
  if (ranks <= workers) return {};
  return usage_error(fmt::format(
      "{} ranks are more than the {} workers of mesh.stages {} times mesh.replicas {}; start at "
      "most {}",
      ranks, workers, recipe.mesh.stages, recipe.mesh.replicas, workers));
}

void say_aside(const std::string& sentence) {
  say(fmt::format("{}{}\n", stderr_is_terminal() ? "\n" : "", sentence));
}

void say_what_is_missing(const Result<std::vector<std::string>>& merged) {
  if (!merged.ok()) {
    return say_aside(fmt::format("warning: the log has only the coordinator's lines: {}",
                                 merged.error().message));
  }
  for (const std::string& sentence : *merged) say_aside("warning: " + sentence);
}

}  // namespace leeway::cli
