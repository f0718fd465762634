// The metrics of a run for Prometheus.
#pragma once

#include <string>

#include "report/run_data.h"

namespace leeway {

// Text format, version 0.0.4. Metrics not known yet are left out.
std::string metrics_text(const RunData& run);

}  // namespace leeway
