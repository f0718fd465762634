// All workers of a session in this process, run by a driver.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "run/crew.h"
#include "worker/driver.h"

namespace leeway {

class LocalCrew final : public Crew {
 public:
  explicit LocalCrew(std::unique_ptr<Driver> driver) : driver_(std::move(driver)) {}

  Status prepare(const SessionStart& start) override;
  Status run(Recorder& recorder, ShardStore& shards) override;
  const Clock& clock() const override { return driver_->clock(); }

 private:
  std::unique_ptr<Driver> driver_;
  Workers workers_;
};

}  // namespace leeway
