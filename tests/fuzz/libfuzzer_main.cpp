// libFuzzer over the same targets: LEEWAY_FUZZ_TARGET names one. `make fuzz` runs them all.
#include <cstdio>
#include <cstdlib>

#include "temporary_place.h"

namespace leeway::fuzz {
namespace {

const Target& chosen() {
  static const Target target = [] {
    const char* name = std::getenv("LEEWAY_FUZZ_TARGET");
    for (const Target& candidate : all_targets()) {
      if (name != nullptr && candidate.name == name) return candidate;
    }
    std::fprintf(stderr, "set LEEWAY_FUZZ_TARGET to one that `fuzz_files --list` prints\n");
    std::exit(2);
  }();
  return target;
}

const Place& place() {
  static const TemporaryPlace made;
  return made.place();
}

}  // namespace
}  // namespace leeway::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  leeway::fuzz::make_sample(leeway::fuzz::place().sample);
  leeway::fuzz::chosen();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  leeway::fuzz::run_target(leeway::fuzz::chosen(), leeway::fuzz::place(),
                           {reinterpret_cast<const char*>(data), size});
  return 0;
}
