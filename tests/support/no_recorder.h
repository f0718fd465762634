// A recorder that discards everything.
#pragma once

#include "worker/outbox.h"

namespace leeway {

class NoRecorder final : public Recorder {
 public:
  void worked(const WorkRecord&) override {}
  void updated(const StageUpdate&) override {}
  void predicted(const Prediction&) override {}
  void evaluated(const StageEvaluation&) override {}
};

}  // namespace leeway
