#include "target.h"

#include <fstream>

namespace leeway::fuzz {

std::vector<Target> all_targets() {
  std::vector<Target> all;
  for (const auto& targets :
       {config_targets(), data_targets(), checkpoint_targets(), log_targets(), fleet_targets()}) {
    all.insert(all.end(), targets.begin(), targets.end());
  }
  return all;
}

namespace {
std::string_view current_input;
}  // namespace

void run_target(const Target& target, const Place& place, std::string_view bytes) {
  current_input = bytes;
  target.run(place, bytes);
}

std::string must_read(const Path& path) { return must(read_text(path)); }

void must_write(const Path& path, std::string_view bytes) {
  // Not write_atomically(), which waits for the disk.
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  LEEWAY_CHECK(file.flush().good(), "cannot write " + path.string());
}

void must(const Status& status) {
  LEEWAY_CHECK(status.ok(), status.ok() ? "" : status.error().message);
}

void check_sentence(const Error& error) {
  LEEWAY_CHECK(!error.message.empty(), "an error says what is wrong");
  for (const char* foreign : {"json.exception", ".cc(", "std::"}) {
    // libFuzzer learns these words from here and puts them into names, which errors repeat.
    if (current_input.find(foreign) != std::string_view::npos) continue;
    LEEWAY_CHECK(error.message.find(foreign) == std::string::npos,
                 "an error has the text of a library's exception: " + error.message);
  }
}

bool sound(const Status& status) {
  if (!status.ok()) check_sentence(status.error());
  return status.ok();
}

}  // namespace leeway::fuzz
