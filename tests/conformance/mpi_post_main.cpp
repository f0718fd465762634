// Every rank of an MPI job runs this: mpirun -n 3 build/tests/mpi_post mix. It prints one line, and
// exits with 1 if something is not as it must be. tests/e2e/test_mpi_post.py calls it.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "drivers/mpi/mpi_post.h"
#include "post_suite.h"

namespace leeway {
namespace {

using mpi::MpiPost;
using mpi::World;

constexpr size_t kSmallPiece = 50'000;

// The processes that live on this rank, with their ledgers.
struct Residents {
  std::map<ProcessId, std::unique_ptr<Ledger>> ledgers;

  explicit Residents(const World& world) {
    ledgers[mpi::guest_of(world.rank())] = std::make_unique<Ledger>();
    if (world.rank() == 0) ledgers[kHost] = std::make_unique<Ledger>();
  }
  std::map<ProcessId, Post::Handlers> handlers() const {
    std::map<ProcessId, Post::Handlers> result;
    for (const auto& [id, ledger] : ledgers) result[id] = ledger->handlers();
    return result;
  }
};

std::vector<ProcessId> everybody(const World& world) {
  std::vector<ProcessId> result = {kHost};
  for (int rank = 0; rank < world.size(); ++rank) result.push_back(mpi::guest_of(rank));
  return result;
}

// All send to all, at the same time; each looks at what it got.
bool mix_arrives(World& world, const Mix& mix, size_t piece_bytes_max, bool waits) {
  const Residents residents(world);
  const auto all = everybody(world);
  MpiPost post(world, {.handlers = residents.handlers(), .piece_bytes_max = piece_bytes_max});
  std::vector<std::unique_ptr<Post>> endpoints;
  for (const auto& [id, ledger] : residents.ledgers) {
    endpoints.push_back(post.endpoint(id));
    send_mix(mix, *endpoints.back(), id, all);
  }
  bool as_expected = true;
  for (const auto& [id, ledger] : residents.ledgers) {
    const auto count = static_cast<size_t>(mix.count) * all.size();
    if (waits) as_expected = as_expected && ledger->wait_for(count);
  }
  if (!waits) post.close();  // it delivers all the same
  endpoints.clear();
  for (const auto& [id, ledger] : residents.ledgers) {
    as_expected = as_expected && ledger->receipts() == expected_of_mix(mix, all, id);
  }
  return as_expected;
}

int run(World& world, const std::string& mode) {
  if (mode == "abort") {
    if (world.rank() == 1) world.abort("rank 1 has had enough");
    const Residents residents(world);
    MpiPost(world, {.handlers = residents.handlers()});  // waits for rank 1, which never comes
  }
  if (mode == "unlike") {
    const Mix mix = {.seed = 4, .count = 50};
    mix_arrives(world, mix, kSmallPiece + static_cast<size_t>(world.rank()), /*waits=*/true);
  }
  if (mode != "mix") return EXIT_FAILURE;
  const bool large = mix_arrives(world, {.seed = 1, .count = 20, .bytes_max = 40'000'000},
                                 size_t{1} << 30, /*waits=*/true);
  const bool in_pieces = mix_arrives(world, {.seed = 2}, kSmallPiece, /*waits=*/true);
  const bool at_the_end = mix_arrives(world, {.seed = 3}, kSmallPiece, /*waits=*/false);
  const bool small = mix_arrives(world, {.seed = 4, .count = 10'000, .bytes_max = 100},
                                 size_t{1} << 30, /*waits=*/true);
  fmt::print("rank {} of {}: large {}, in pieces {}, at the end {}, small {}\n", world.rank(),
             world.size(), large, in_pieces, at_the_end, small);
  return large && in_pieces && at_the_end && small ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace leeway

int main(int argc, char** argv) {
  auto world = leeway::mpi::World::start();
  if (!world.ok()) {
    fmt::print(stderr, "mpi_post: {}\n", world.error().message);
    return EXIT_FAILURE;
  }
  return leeway::run(**world, argc > 1 ? argv[1] : "mix");
}
