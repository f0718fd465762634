// The numbers of a run as Prometheus reads them.
#pragma once

#include <string>

#include "report/run_data.h"

namespace leeway {

// The text format, version 0.0.4. What is not known yet is left out.
std::string metrics_text(const RunData& run);

}  // namespace leeway
