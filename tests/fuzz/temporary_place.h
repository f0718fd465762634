// The folders of one process, removed when it ends.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <system_error>

#include "target.h"

namespace leeway::fuzz {

class TemporaryPlace {
 public:
  TemporaryPlace() {
    // In memory where there is such a folder: the product syncs what it writes to disk.
    Path parent = "/dev/shm";
    if (::access(parent.c_str(), W_OK) != 0) parent = std::filesystem::temp_directory_path();
    std::string name = (parent / "leeway-fuzz-XXXXXX").string();
    LEEWAY_CHECK(::mkdtemp(name.data()) != nullptr, "cannot make " + name);
    folder_ = name;
    place_ = {.sample = folder_ / "sample", .scratch = folder_ / "scratch"};
    std::filesystem::create_directories(place_.sample);
    empty_scratch();
  }
  ~TemporaryPlace() { static_cast<void>(remove_tree(folder_)); }
  TemporaryPlace(const TemporaryPlace&) = delete;
  TemporaryPlace& operator=(const TemporaryPlace&) = delete;

  const Place& place() const { return place_; }
  void empty_scratch() const {
    LEEWAY_CHECK(remove_tree(place_.scratch).ok(), "cannot empty " + place_.scratch.string());
    std::filesystem::create_directories(place_.scratch);
  }

 private:
  Path folder_;
  Place place_;
};

}  // namespace leeway::fuzz
