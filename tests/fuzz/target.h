// What the mutation test (files_main.cpp) and libFuzzer (libfuzzer_main.cpp) feed: one function for
// each kind of file that the program reads. A function returns, whatever the bytes are: what is
// wrong with them is a value (base/result.h). A crash, a failed LEEWAY_CHECK, an exception, or too
// much memory or time is a fault of the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/result.h"

namespace leeway::fuzz {

struct Place {
  Path sample;   // what make_sample() wrote
  Path scratch;  // an empty folder for a target's own files
};

struct Target {
  std::string_view name;
  std::vector<std::string> (*seeds)(const Place& place);  // valid inputs
  void (*run)(const Place& place, std::string_view bytes);
};

std::vector<Target> config_targets();
std::vector<Target> data_targets();
std::vector<Target> checkpoint_targets();
std::vector<Target> log_targets();
std::vector<Target> fleet_targets();
std::vector<Target> all_targets();
void run_target(const Target& target, const Place& place, std::string_view bytes);

// A finished run of a tiny model and the data it read, written by the product itself. The sample
// has corpus/, data/, recipes/ (those of the repository) and run/.
void make_sample(const Path& folder);

// For seeds, and for the files around the one that a target changes.
std::string must_read(const Path& path);
void must_write(const Path& path, std::string_view bytes);
template <class T>
T must(Result<T> result) {
  LEEWAY_CHECK(result.ok(), result.ok() ? "" : result.error().message);
  return std::move(result).value();
}
void must(const Status& status);

// Whether there is a value. An error must be a sentence of ours, not the text of an exception.
void check_sentence(const Error& error);
template <class T>
bool sound(const Result<T>& result) {
  if (!result.ok()) check_sentence(result.error());
  return result.ok();
}
bool sound(const Status& status);

}  // namespace leeway::fuzz
