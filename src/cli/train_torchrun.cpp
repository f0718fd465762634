#include "cli/train_torchrun.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/fleet_arguments.h"
#include "cli/recipe_data.h"
#include "config/print.h"
#include "drivers/threads/wall_clock.h"
#include "fleet/host_and_guest.h"
#include "fleet/zmq_wire.h"
#include "terminal/interrupt.h"

namespace leeway::cli {
namespace {

std::optional<int64_t> whole_number(const char* text) {
  if (text == nullptr) return std::nullopt;
  const std::string_view view(text);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), number);
  if (error != std::errc() || end != view.data() + view.size()) return std::nullopt;
  return number;
}

// What every rank has of the job.
struct Rank {
  TorchrunJob job;
  std::optional<zmq::KeyPair> keys;
  bool local = false;  // all of it is on this machine
  const Clock& clock;

  std::string at() const { return fmt::format("{}:{}", local ? "127.0.0.1" : job.host, job.port); }
  std::string listen(const std::string& port) const {
    return fmt::format("tcp://{}:{}", local ? "127.0.0.1" : "*", port);
  }
  std::string name() const { return fmt::format("rank {}", job.rank); }
};

GuestOptions guest_of(const Rank& rank, const TrainArguments& arguments, const Recipe& recipe) {
  const int64_t workers = recipe.mesh.stages * recipe.mesh.replicas;
  const ProcessId self = new_process_id(rank.clock);
  return {.wire = zmq_wire({.self = self,
                            .listen = rank.listen("*"),
                            .keys = rank.keys,
                            .host_address = "tcp://" + rank.at(),
                            .host_key = rank.keys ? rank.keys->public_key : "",
                            .clock = rank.clock}),
          .self = self,
          .host_name = fmt::format("rank 0 at {}", rank.at()),
          .name = rank.name(),
          .workers = share_of(workers, rank.job.rank, rank.job.size),
          .folder = arguments.folder() / "processes",
          .text_cache = user_text_cache(),
          .clock = rank.clock};
}

Status lead(TrainArguments& arguments, const Rank& rank) {
  LEEWAY_ASSIGN(const LoadedRecipe loaded, begin_training(arguments));
  LEEWAY_TRY(check_ranks(loaded.recipe, rank.job.size));
  HostAndGuest crew(rank.clock);
  const auto may_join = [&](const std::string& key) {
    return rank.keys && key == rank.keys->public_key;
  };
  const auto begin = [&] {
    return crew.begin({.wire = zmq_wire({.self = kHost,
                                         .listen = rank.listen(fmt::format("{}", rank.job.port)),
                                         .keys = rank.keys,
                                         .allows = may_join,
                                         .silent_beats = kPatientBeats,
                                         .clock = rank.clock}),
                       .recipe = loaded.recipe,
                       .recipe_text = print_recipe(loaded),
                       .folder = arguments.folder(),
                       .clock = rank.clock,
                       .said = say_aside,
                       .interrupted = interrupted,
                       .gave_up = [&] { return crew.failure().has_value(); }},
                      guest_of(rank, arguments, loaded.recipe));
  };
  Status status = train_and_print(
      arguments, loaded, rank.clock,
      {.crew = &crew,
       .resume = "torchrun --no-python ... leeway train --driver zmq --resume --out",
       .folder_taken = begin});
  const std::optional<Error> failure = crew.failure();  // why the run has ended, if there is one
  crew.end();
  return failure ? Status(*failure) : status;
}

Status follow(TrainArguments& arguments, const Rank& rank) {
  LEEWAY_ASSIGN(const Path file, recipe_file(arguments));
  std::vector<std::string> sets = arguments.recipe.sets;
  sets.push_back("run.driver=zmq");
  LEEWAY_ASSIGN(const LoadedRecipe loaded, load_recipe(file, sets));
  LEEWAY_TRY(check_ranks(loaded.recipe, rank.job.size));
  GuestOptions guest = guest_of(rank, arguments, loaded.recipe);
  guest.interrupted = interrupted;
  LEEWAY_ASSIGN(const GuestEnd end, take_part(goes_with_host(std::move(guest))));
  if (end != GuestEnd::kForgotten) return {};
  return Error{"rank 0 does not know this process any more; start the job again with --resume"};
}

}  // namespace

std::optional<TorchrunJob> torchrun_job(
    const std::function<const char*(const char* name)>& lookup) {
  const auto rank = whole_number(lookup("RANK"));
  const auto size = whole_number(lookup("WORLD_SIZE"));
  const auto port = whole_number(lookup("MASTER_PORT"));
  const char* const host = lookup("MASTER_ADDR");
  if (!rank || !size || !port || host == nullptr) return std::nullopt;
  return TorchrunJob{.rank = *rank, .size = *size, .host = host, .port = *port + 1};
}

Status train_under_torchrun(TrainArguments arguments, const TorchrunJob& job,
                            const TorchrunKeys& security) {
  watch_signals();
  const bool local = is_here_only(fmt::format("tcp://{}:", job.host));
  if (security.key.empty() && !security.insecure && !local) {
    return usage_error(fmt::format(
        "without --key anybody could join at {}, and read what is sent; make one with `leeway keys "
        "new FILE`, which all machines need, or give --insecure if the network is your own",
        job.host));
  }
  const threads::WallClock clock;
  Rank rank = {.job = job, .keys = {}, .local = local, .clock = clock};
  if (!security.key.empty()) {
    LEEWAY_ASSIGN(rank.keys, zmq::read_key_pair(security.key));
  }
  if (job.rank == 0) return lead(arguments, rank);
  Status status = follow(arguments, rank);
  if (status.ok()) return status;
  return Error{fmt::format("{}: {}", rank.name(), status.error().message), status.error().kind};
}

}  // namespace leeway::cli
