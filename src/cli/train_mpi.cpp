#include "cli/train_mpi.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <utility>

#include "cli/fleet_arguments.h"
#include "cli/print_result.h"
#include "cli/recipe_data.h"
#include "config/print.h"
#include "drivers/threads/wall_clock.h"
#include "fleet/mpi_crew.h"
#include "run/failure.h"
#include "terminal/interrupt.h"

namespace leeway::cli {
namespace {

Status train_as_rank_0(TrainArguments& arguments, const mpi::World& world, MpiCrew& crew) {
  LEEWAY_ASSIGN(const LoadedRecipe loaded, begin_training(arguments));
  LEEWAY_TRY(check_ranks(loaded.recipe, world.size()));
  const auto begin = [&] {
    return crew.begin({.recipe = loaded.recipe,
                       .recipe_text = print_recipe(loaded),
                       .folder = arguments.folder(),
                       .interrupted = interrupted});
  };
  return train_and_print(arguments, loaded, crew.clock(), {.crew = &crew, .folder_taken = begin});
}

// Once its sentence is printed: a rank that ends with a failure makes mpirun end the others.
MpiEnd lead(TrainArguments& arguments, const MpiRankOptions& options) {
  MpiCrew crew(options);
  Status status;
  try {
    status = train_as_rank_0(arguments, options.world, crew);
  } catch (...) {
    status = failure_of(std::current_exception());
  }
  MpiEnd end = {.signal = interrupting_signal()};
  if (!status.ok()) {
    print_failure(status.error());
    end.failed = status.error().kind;
  }
  crew.end(end);
  return end;
}

}  // namespace

Status train_with_mpi(TrainArguments arguments) {
  watch_signals();
  const threads::WallClock clock;
  // Asked before MPI starts, which sets such variables itself.
  const bool is_alone = !mpi::started_by_mpi([](const char* name) { return std::getenv(name); });
  MpiEnd end;
  {
    LEEWAY_ASSIGN(const std::unique_ptr<mpi::World> world, mpi::World::start());
    if (is_alone) say_aside("this is the only rank; mpirun or srun starts more");
    const MpiRankOptions options = {
        .world = *world, .text_cache = user_text_cache(), .clock = clock, .warned = say_aside};
    end = world->rank() == 0 ? lead(arguments, options) : follow_rank_0(options);
  }
  if (!end.failed) return {};
  // The exit status has the signal, which may have come to rank 0 alone.
  if (end.failed == ErrorKind::kInterrupted && !interrupted()) std::raise(end.signal);
  return Error{"", *end.failed};
}

}  // namespace leeway::cli
