// The mutation test: thousands of damaged files through every target, in child processes with
// limits of memory and time. The inputs are a function of --seed, so a failure can be repeated.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <map>

#include "base/hash.h"
#include "child_run.h"
#include "mutate.h"
#include "temporary_place.h"

namespace leeway::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage =
    "usage: fuzz_files [--count FILES] [--seed N] [--target NAME] [--first INDEX]\n"
    "       fuzz_files --target NAME --input FILE   one file, without limits, for a debugger\n"
    "       fuzz_files --seeds FOLDER               writes the valid files, by target\n"
    "       fuzz_files --list                       prints the targets\n";
constexpr int kFailuresMax = 5;  // for each target: the rest is likely more of the same

struct Arguments {
  uint64_t count = 500;  // over all targets
  uint64_t seed = 1;
  uint64_t first = 0;
  std::string target, input, seeds;
  bool list = false;
};

[[noreturn]] void misused() {
  std::fputs(kUsage, stderr);
  std::exit(2);
}

Arguments parse(int count, char** words) {
  Arguments arguments;
  const std::map<std::string, uint64_t*> numbers = {
      {"--count", &arguments.count}, {"--seed", &arguments.seed}, {"--first", &arguments.first}};
  const std::map<std::string, std::string*> texts = {{"--target", &arguments.target},
                                                     {"--input", &arguments.input},
                                                     {"--seeds", &arguments.seeds}};
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--list") {
      arguments.list = true;
      continue;
    }
    if (++i == count) misused();
    const std::string_view value = words[i];
    if (const auto text = texts.find(word); text != texts.end()) {
      *text->second = value;
      continue;
    }
    const auto number = numbers.find(word);
    if (number == numbers.end()) misused();
    const char* end = value.data() + value.size();
    if (std::from_chars(value.data(), end, *number->second).ptr != end) misused();
  }
  return arguments;
}

Path seeds_of(const Place& place, const Target& target) {
  return place.sample / "seeds" / target.name;
}

// In a child: LibTorch's threads do not survive a fork.
void prepare(const TemporaryPlace& temporary, const std::vector<Target>& targets) {
  const Place& place = temporary.place();
  const Outcome outcome = run_in_child({}, [&](Progress&) {
    make_sample(place.sample);
    for (const Target& target : targets) {
      fs::create_directories(seeds_of(place, target));
      const std::vector<std::string> seeds = target.seeds(place);
      for (size_t i = 0; i < seeds.size(); ++i) {
        must_write(seeds_of(place, target) / fmt::format("{:03}", i), seeds[i]);
      }
    }
  });
  LEEWAY_CHECK(outcome.why.empty(), "making the sample run failed: " + outcome.why);
  temporary.empty_scratch();
}

std::vector<std::string> read_seeds(const Place& place, const Target& target) {
  std::vector<Path> paths;
  for (const auto& entry : fs::directory_iterator(seeds_of(place, target))) {
    paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<std::string> seeds;
  for (const Path& path : paths) seeds.push_back(must_read(path));
  return seeds;
}

// Random numbers of their own for every input: a failure is repeated without those before it.
std::string input_of(const Target& target, const std::vector<std::string>& seeds, uint64_t seed,
                     uint64_t index) {
  if (index < seeds.size()) return seeds[index];  // a valid file must not be a fault either
  const std::string name = fmt::format("{} {}", target.name, index);
  return mutated(seeds, Random(seed, hash_bytes(as_bytes(name))));
}

void report(const Target& target, const Arguments& arguments, const Outcome& outcome) {
  const Path kept = fs::temp_directory_path() /
                    fmt::format("leeway-fuzz-{}-{}-{}", target.name, arguments.seed, outcome.index);
  must_write(kept, outcome.input);
  fmt::print(stderr,
             "FAILED {}: {} at input {} of seed {} ({} bytes)\n"
             "  repeat: build/tests/fuzz_files --target {} --input {}\n",
             target.name, outcome.why, outcome.index, arguments.seed, outcome.input.size(),
             target.name, kept.string());
}

// The number of failures.
int try_files(const Target& target, const TemporaryPlace& temporary, const Arguments& arguments,
              uint64_t count) {
  const auto begin = std::chrono::steady_clock::now();
  int failures = 0;
  double slowest = 0;
  for (uint64_t next = arguments.first; next < count && failures < kFailuresMax;) {
    temporary.empty_scratch();
    const Outcome outcome = run_in_child(kFileLimits, [&](Progress& progress) {
      const auto seeds = read_seeds(temporary.place(), target);
      for (uint64_t i = next; i < count; ++i) {
        const std::string input = input_of(target, seeds, arguments.seed, i);
        progress.start(i, input);
        run_target(target, temporary.place(), input);
        progress.finish();
      }
    });
    slowest = std::max(slowest, outcome.slowest_s);
    if (outcome.why.empty()) break;
    report(target, arguments, outcome);
    ++failures;
    next = outcome.index + 1;
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  fmt::print("{:16} {:6} files {:8.2f} s, the slowest {:.3f} s{}\n", target.name,
             count - std::min(arguments.first, count), spent.count(), slowest,
             failures > 0 ? fmt::format(", {} FAILED", failures) : "");
  std::fflush(stdout);
  return failures;
}

int run(const Arguments& arguments) {
  std::vector<Target> targets = all_targets();
  if (!arguments.target.empty()) {
    std::erase_if(targets, [&](const Target& target) { return target.name != arguments.target; });
    if (targets.empty()) misused();
  }
  if (arguments.list) {
    for (const Target& target : targets) fmt::print("{}\n", target.name);
    return 0;
  }
  const TemporaryPlace temporary;
  prepare(temporary, targets);
  if (!arguments.seeds.empty()) {
    fs::copy(temporary.place().sample / "seeds", arguments.seeds, fs::copy_options::recursive);
    return 0;
  }
  if (!arguments.input.empty()) {
    if (targets.size() != 1) misused();
    run_target(targets.front(), temporary.place(), must_read(arguments.input));
    fmt::print("no fault\n");
    return 0;
  }
  int failures = 0;
  const uint64_t each = (arguments.count + targets.size() - 1) / targets.size();
  for (const Target& target : targets) failures += try_files(target, temporary, arguments, each);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace leeway::fuzz

int main(int count, char** words) { return leeway::fuzz::run(leeway::fuzz::parse(count, words)); }
