// The colours are those of Okabe and Ito, which eyes of all kinds tell apart; forward and backward,
// the two that stand side by side everywhere, differ most in brightness too.
#include "report/timeline_assets.h"

namespace leeway {

const std::string_view kTimelineStyle = R"css(
.timeline { font: 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
.timeline text { fill: #3a4149; }
.timeline .title { font-size: 16px; font-weight: 600; fill: #14181d; }
.timeline .heading { font-size: 13px; font-weight: 600; fill: #14181d; }
.timeline .worker { text-anchor: end; }
.timeline .axis text { text-anchor: middle; font-size: 11px; }
.timeline .numbers text { text-anchor: middle; font-size: 10px; pointer-events: none; }
.timeline .paper { fill: #ffffff; }
.timeline .row { fill: #eceff2; }
.timeline .grid path { stroke: #d3d8de; stroke-width: 1; fill: none; }
.timeline .key { stroke: #8a929b; stroke-width: 0.5; }
.timeline .boxes rect { stroke-width: 0.6; vector-effect: non-scaling-stroke; }
.timeline .forward { fill: #0072b2; stroke: #004a75; }
.timeline .backward { fill: #e69f00; stroke: #9c6b00; }
.timeline .update { fill: #009e73; stroke: #00664a; }
.timeline .save { fill: #d55e00; stroke: #8c3d00; }
.timeline .contribute { fill: #f0e442; stroke: #98900f; }
.timeline .reduce { fill: #56b4e9; stroke: #1f6f9c; }
.timeline .merge { fill: #33383f; stroke: #0c0e10; }
.timeline .repeat { fill: #a0784a; stroke: #65481f; }
.timeline .evaluate, .timeline .evaluation { fill: #cc79a7; stroke: #8a4a6d; }
.timeline .several { fill: #6b7480; stroke: none; shape-rendering: crispEdges; }
.timeline .numbers text { fill: #14181d; }
.timeline .numbers .on-forward, .timeline .numbers .on-merge { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  .timeline text { fill: #b9c1ca; }
  .timeline .title, .timeline .heading { fill: #f0f3f6; }
  .timeline .paper { fill: #14171b; }
  .timeline .row { fill: #252a31; }
  .timeline .grid path { stroke: #373e47; }
  .timeline .key { stroke: #5a636d; }
  .timeline .forward { fill: #3d9be0; stroke: #8cc8f5; }
  .timeline .backward { fill: #e69f00; stroke: #ffcf6b; }
  .timeline .update { fill: #19b88c; stroke: #7fe3c6; }
  .timeline .save { fill: #e8702a; stroke: #ffb389; }
  .timeline .contribute { fill: #f0e442; stroke: #fff9b0; }
  .timeline .reduce { fill: #a5daf7; stroke: #dff3ff; }
  .timeline .merge { fill: #e8ebef; stroke: #ffffff; }
  .timeline .repeat { fill: #b98f5f; stroke: #e3c9a5; }
  .timeline .evaluate, .timeline .evaluation { fill: #d98fb8; stroke: #f5cbe2; }
  .timeline .several { fill: #98a2ae; }
  .timeline .numbers text, .timeline .numbers .on-forward, .timeline .numbers .on-merge {
    fill: #0b0d10; }
}
)css";

const std::string_view kPageStyle = R"css(
:root { color-scheme: light dark; --paper: #ffffff; --ink: #14181d; --soft: #59626c;
  --line: #d3d8de; --panel: #f5f7f9; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171b; --ink: #f0f3f6; --soft: #a3adb8; --line: #373e47; --panel: #1d2126; }
}
body { margin: 0 auto; padding: 24px 28px 40px; max-width: 1500px; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 22px; margin: 0 0 4px; }
p { margin: 4px 0; max-width: 130ch; }
.soft { color: var(--soft); font-size: 14px; }
.note { border-left: 3px solid #e69f00; padding-left: 10px; }
.tools { display: flex; flex-wrap: wrap; gap: 6px; align-items: center; margin: 14px 0 2px; }
.tools button { font: inherit; min-width: 34px; padding: 2px 10px; color: var(--ink);
  background: var(--panel); border: 1px solid var(--line); border-radius: 6px; cursor: pointer; }
.tools button:hover { border-color: var(--soft); }
.tools button:focus-visible { outline: 2px solid #3d9be0; outline-offset: 1px; }
svg.timeline { display: block; width: 100%; height: auto; }
svg.timeline .plot { touch-action: pan-y; }
svg.timeline .boxes.path rect { opacity: 0.22; }
svg.timeline .boxes.path rect.on-path { opacity: 1; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin-top: 18px; font-size: 14px;
  font-variant-numeric: tabular-nums; }
th, td { padding: 4px 14px; text-align: right; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 4px; }
tr.all td { font-weight: 600; border-bottom: none; }
#tip { position: fixed; z-index: 2; pointer-events: none; padding: 8px 12px; max-width: 320px;
  background: var(--panel); border: 1px solid var(--line); border-radius: 8px; font-size: 13px;
  line-height: 1.45; box-shadow: 0 4px 16px rgba(0, 0, 0, 0.25); white-space: pre-line; }
#tip[hidden] { display: none; }
)css";

}  // namespace leeway
