// The picture, how to read it, and the numbers under it, as one HTML page that needs nothing else.
#pragma once

#include <string>
#include <vector>

#include "report/layout.h"
#include "report/stage_table.h"

namespace leeway {

struct TimelinePage {
  std::string title;               // names the run
  std::string summary;             // one line about the whole of it
  std::vector<std::string> notes;  // what a reader has to know before trusting the picture
};

// Well-formed XML too, so that tests can take it apart.
std::string timeline_page(const TimelinePage& page, const Drawing& drawing, const TextTable& table);

}  // namespace leeway
