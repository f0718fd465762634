// `leeway train` with run.driver = "zmq" in the processes that torchrun has started: rank 0 is the
// coordinator and trains as well, the others join it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/training.h"

namespace leeway::cli {

struct TorchrunJob {
  int64_t rank = 0;
  int64_t size = 1;
  std::string host;  // of rank 0
  int64_t port = 0;  // one that torchrun has not taken
};
// None: something else has started this program. `lookup` is std::getenv.
std::optional<TorchrunJob> torchrun_job(const std::function<const char*(const char* name)>& lookup);

// All ranks have the same command line, so they have one key: who has it may join.
struct TorchrunKeys {
  std::string key;
  bool insecure = false;
};
Status train_under_torchrun(TrainArguments arguments, const TorchrunJob& job,
                            const TorchrunKeys& security);

}  // namespace leeway::cli
