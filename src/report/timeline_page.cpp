#include "report/timeline_page.h"

#include <fmt/format.h>

#include "report/text.h"
#include "report/timeline_svg.h"
#include "report/web_files.h"

namespace leeway {
namespace {

std::string row_html(const std::vector<std::string>& cells, const char* tag, const char* style) {
  std::string html = fmt::format("<tr{}>", style);
  for (const std::string& cell : cells) html += fmt::format("<{0}>{1}</{0}>", tag, escaped(cell));
  return html + "</tr>\n";
}

std::string table_html(const TextTable& table) {
  std::string html = "<div class=\"scroll\"><table id=\"stages\">\n<thead>";
  html += row_html(table.header, "th", "") + "</thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    html += row_html(row, "td", row.front() == "all" ? " class=\"all\"" : "");
  }
  return html + "</tbody>\n</table></div>\n";
}

// Hidden until the script runs: without it they would do nothing.
constexpr const char* kTools = R"html(<div class="tools" hidden="hidden">
<button type="button" data-action="in" aria-label="zoom in">+</button>
<button type="button" data-action="out" aria-label="zoom out">−</button>
<button type="button" data-action="left" aria-label="earlier">←</button>
<button type="button" data-action="right" aria-label="later">→</button>
<button type="button" data-action="whole">whole</button>
<span class="soft">Ctrl + wheel zooms, dragging moves; point at a box to see what it is and the
way of its microbatch through all stages.</span>
</div>
)html";

constexpr const char* kUnderTheTable = R"html(<p class="soft">Busy: the share of the time in which
workers of a stage work, in the part that is drawn, and in the whole run after warm-up, that is from
a worker's first backward (in each session) to its last update; bubbles: the rest of that time.
Work for rounds of averaging is work. Delay: updates between the weights that a gradient was
computed with and those that it met, in the mean once the pipeline is full, and at most. What was
sent and the counts are of the whole run, all replicas together.</p>
)html";

}  // namespace

std::string timeline_page(const TimelinePage& page, const Drawing& drawing,
                          const TextTable& table) {
  std::string html = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n";
  html += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n";
  html += fmt::format("<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n",
                      escaped(page.title), kPageStyle);
  html += fmt::format("<h1>{}</h1>\n<p>{}</p>\n<p class=\"soft\">{}</p>\n", escaped(page.title),
                      escaped(page.summary), escaped(kHowToRead));
  for (const std::string& note : page.notes) {
    html += fmt::format("<p class=\"note\">{}</p>\n", escaped(note));
  }
  html += kTools;
  html += timeline_svg(drawing, page.title, SvgUse::kPage);
  html += table_html(table);
  html += kUnderTheTable;
  html += "<div id=\"tip\" hidden=\"hidden\"></div>\n";
  // The marks make the script plain text for readers of XML and a comment for browsers.
  html += fmt::format(
      "<script>//<![CDATA[\n{}startTimeline(document);\n//]]></script>\n</body>\n</html>\n",
      kTimelineScript);
  return html;
}

}  // namespace leeway
