#include "fleet/mpi_crew.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace leeway {
namespace {

// What rank 0 says when it begins, and when it has ended.
struct MpiBegin {
  int64_t workers = 0;  // of the whole mesh
  Path folder;          // for what guests write
};

std::string announced(const MpiBegin& begin) {
  return nlohmann::json{{"workers", begin.workers}, {"folder", begin.folder.string()}}.dump();
}

std::string announced(const MpiEnd& end) {
  nlohmann::json json = {{"signal", end.signal}};
  if (end.failed) json["failed"] = static_cast<int>(*end.failed);
  return json.dump();
}

GuestOptions guest_on_rank(const MpiRankOptions& options, MpiWires& wires, const MpiBegin& begin) {
  const std::string name = fmt::format("rank {}", options.world.rank());
  const ProcessId self = mpi::guest_of(options.world.rank());
  return {.wire = wires.wire(self),
          .self = self,
          .host_name = "rank 0",
          .name = name,
          .workers = share_of(begin.workers, options.world.rank(), options.world.size()),
          .folder = begin.folder,
          .text_cache = options.text_cache,
          .clock = options.clock,
          .said =
              [name, warned = options.warned](const std::string& sentence) {
                if (!warned || !sentence.starts_with("warning: ")) return;
                warned(fmt::format("{}: {}", name, sentence));
              },
          // A signal reaches all ranks; rank 0 ends the run for all of them.
          .interrupted = {}};
}

// All the others would wait for this rank.
[[noreturn]] void end_job(mpi::World& world, const Error& error) {
  world.abort(fmt::format("rank {}: {}", world.rank(), error.message));
}

}  // namespace

MpiCrew::MpiCrew(MpiRankOptions options)
    : options_(std::move(options)),
      announcement_(std::make_unique<mpi::Announcement>(options_.world)),
      both_(options_.clock) {}

Status MpiCrew::begin(const Run& run) {
  const MpiBegin begin = {.workers = run.recipe.mesh.stages * run.recipe.mesh.replicas,
                          .folder = run.folder / "processes"};
  announcement_->say(announced(begin));
  announcement_.reset();
  wires_ = std::make_unique<MpiWires>(options_.world);
  return both_.begin({.wire = wires_->wire(kHost),
                      .recipe = run.recipe,
                      .recipe_text = run.recipe_text,
                      .folder = run.folder,
                      .clock = options_.clock,
                      .interrupted = run.interrupted},
                     guest_on_rank(options_, *wires_, begin),
                     [this](const Error& error) { end_job(options_.world, error); });
}

void MpiCrew::end(const MpiEnd& end) {
  if (both_.has_begun()) {
    both_.end();
    wires_.reset();
    announcement_ = std::make_unique<mpi::Announcement>(options_.world);
  }
  announcement_->say(announced(end));
  announcement_.reset();
}

MpiEnd follow_rank_0(const MpiRankOptions& options) {
  const auto next = [&] { return nlohmann::json::parse(mpi::Announcement(options.world).hear()); };
  nlohmann::json said = next();
  if (said.contains("workers")) {
    const MpiBegin begin = {.workers = said["workers"].get<int64_t>(),
                            .folder = said["folder"].get<std::string>()};
    {
      MpiWires wires(options.world);
      const Result<GuestEnd> ended = take_part_safely(guest_on_rank(options, wires, begin));
      if (!ended.ok()) end_job(options.world, ended.error());
    }
    said = next();
  }
  MpiEnd end = {.signal = said["signal"].get<int>()};
  if (said.contains("failed")) end.failed = static_cast<ErrorKind>(said["failed"].get<int>());
  return end;
}

}  // namespace leeway
