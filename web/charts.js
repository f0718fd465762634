// The charts: which data each one shows, and how it is drawn.
'use strict';
const COLORS = {
  light: ['#0072b2', '#d55e00', '#009e73', '#b3508a', '#8a6d00', '#3b3f8f', '#2a8fbd', '#6b4a1f'],
  dark: ['#56b4e9', '#ff9a4d', '#2fc79a', '#e79bc5', '#f0d442', '#a3a8ff', '#9adcff', '#d3ab7a'],
};
// Where a point of a run lies on each axis, and how to format that.
const AXES = {
  tokens: {of: (point) => point[1], name: 'tokens', say: (x) => say.count(x) + ' tokens'},
  epochs: {of: (point, run) => point[1] / run.train_tokens, name: 'epochs',
    say: (x) => say.short(x) + ' epochs'},
  time: {of: (point) => point[2], name: 'time', say: say.seconds, ticks: say.seconds},
  averaged: {of: (point) => point[3], name: 'bytes between replicas', say: say.bytes,
    ticks: say.bytes},
  bytes: {of: (point) => point[4], name: 'bytes, all', say: say.bytes, ticks: say.bytes},
  updates: {of: (point) => point[0], name: 'updates', say: (x) => say.count(x) + ' updates'},
};
const POINT_COLUMNS = ['update', 'tokens', 'seconds', 'bytes_averaging', 'bytes', 'value'];
const VALUE = 5;

const isDark = () => document.documentElement.dataset.theme === 'dark';
const colorOf = (index) => {
  const colors = COLORS[isDark() ? 'dark' : 'light'];
  return colors[index % colors.length];
};
const styleOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// The ends of an axis that shows these values; all of them if there are few.
const ends = (values, {zero, logarithmic}) => {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (!(low <= high)) return {};
  if (zero) low = Math.min(low, 0);
  const margin = 0.04 * (high - low) || 0.04 * Math.abs(high) || 1;
  if (logarithmic) return {min: low / 1.02, max: high * 1.02};
  return {min: zero && low === 0 ? 0 : low - margin, max: high + margin};
};

// A round number of seconds, minutes, hours or days, about an eighth of the range.
const timeStep = (range) => {
  const steps = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200,
    86400];
  return range < 8 ? undefined : steps.find((step) => range / step <= 8) ||
    86400 * Math.ceil(range / 86400 / 8);
};

// Lines along one axis. `lines`: [{label, points: [{x, y}], raw, color, dashed, dots, hidden}];
// `raw`: the same points before smoothing, drawn faintly behind. `x`, `y`: the ends of the axes.
const lineChart = ({lines, axis, x, y, unit, ticks, sayValue, logarithmicX, logarithmicY,
  toggle}) => {
  const {name, say: sayAt, ticks: sayTick} = AXES[axis];
  const dataset = ({label, color, dashed, dots, hidden}, points, faint) => ({
    label, data: points, faint, hidden, order: faint ? 1 : 0,
    borderColor: faint ? color + '40' : color, backgroundColor: faint ? color + '40' : color,
    borderWidth: dots ? 2 : 1.5,
    borderDash: dashed && !faint ? [5, 4] : [],
    pointRadius: !faint && ((dots && points.length < 60) || points.length === 1) ? 3 : 0,
    pointHitRadius: faint ? 0 : 6,
  });
  const step = axis === 'time' && !logarithmicX ? timeStep(x.max - x.min) : undefined;
  const options = baseOptions({
    x: {type: logarithmicX ? 'logarithmic' : 'linear', title: name, ticks: sayTick || say.axis,
      step, ...x},
    y: {type: logarithmicY ? 'logarithmic' : 'linear', title: unit, ticks: ticks || say.axis, ...y},
    tooltip: {
      title: (items) => items.length ? sayAt(items[0].parsed.x) : '',
      label: (item) => `${item.dataset.label}: ${sayValue(item.parsed.y)}`,
    },
    legend: lines.length > 1,
  });
  options.plugins.tooltip.filter = (item) => !item.dataset.faint;
  options.plugins.legend.labels.filter = (item, data) => !data.datasets[item.datasetIndex].faint;
  options.plugins.legend.onClick = (event, item) => toggle(item.text);
  return {
    type: 'line',
    data: {datasets: [...lines.map((line) => dataset(line, line.points, false)),
      ...lines.filter(({raw}) => raw).map((line) => dataset(line, line.raw, true))]},
    options,
  };
};

// Bars over names. `groups`: [{label, values, color}].
const barChart = ({names, groups, unit, sayValue, max, xTitle}) => ({
  type: 'bar',
  data: {labels: names, datasets: groups.map(({label, values, color}) => ({
    label, data: values, backgroundColor: color, borderRadius: 2, maxBarThickness: 56,
  }))},
  options: baseOptions({
    x: {type: 'category', title: xTitle},
    y: {type: 'linear', title: unit, ticks: say.share, max, zero: true},
    tooltip: {label: (item) => `${item.dataset.label}: ${sayValue(item.parsed.y)}`},
    legend: groups.length > 1,
  }),
});

// Rows of bands over the updates. `rows`: [{label, color, bands: [[first, last]], gaps}].
const BAND_ROW = 26;   // pixels
const bandChart = ({rows, last, sayBand, sayGap}) => {
  const boxes = (key) => rows.flatMap(({label, [key]: ranges}) => ranges.map(
    (range) => ({x: [range[0] - 1, range[1]], y: label, range})));
  const options = baseOptions({
    x: {type: 'linear', title: 'updates', ticks: say.axis, min: 0, max: last},
    y: {type: 'category'},
    tooltip: {title: () => '', label: ({raw, dataset}) => `${raw.y}: ${dataset.words(raw.range)}`},
    legend: false,
  });
  options.indexAxis = 'y';
  options.plugins.tooltip.displayColors = false;
  options.interaction = {mode: 'nearest', intersect: true};
  options.scales.y.grid.display = false;
  options.scales.y.ticks.autoSkip = false;
  const color = new Map(rows.map((row) => [row.label, row.color]));
  const style = {grouped: false, barThickness: 14, borderSkipped: false};
  return {
    type: 'bar',
    data: {labels: rows.map(({label}) => label), datasets: [
      {...style, data: boxes('bands'), words: sayBand, order: 1,
        backgroundColor: ({raw}) => color.get(raw?.y)},
      // In front and never too small to be seen.
      {...style, data: boxes('gaps'), words: sayGap, order: 0, minBarLength: 3,
        backgroundColor: styleOf('--panel'), borderColor: styleOf('--line'), borderWidth: 1},
    ]},
    options,
  };
};

const baseOptions = ({x, y, tooltip, legend}) => {
  const ink = styleOf('--soft'), line = styleOf('--line');
  const scale = ({type, title, ticks, min, max, zero, step}) => ({
    type, min, max, beginAtZero: Boolean(zero),
    title: {display: Boolean(title), text: title, color: ink},
    grid: {color: line, borderColor: line},
    // Without ticks at the ends, which are rarely round.
    ticks: {color: ink, maxRotation: 40, autoSkipPadding: 12, includeBounds: false, stepSize: step,
      ...(ticks ? {callback: (value) => ticks(value)} : {})},
  });
  return {
    animation: false, responsive: true, maintainAspectRatio: false,
    interaction: {mode: 'nearest', axis: 'x', intersect: false},
    scales: {x: scale(x), y: scale(y)},
    plugins: {
      legend: {display: legend, labels: {color: styleOf('--ink'), boxWidth: 14, boxHeight: 2}},
      tooltip: {callbacks: tooltip},
    },
  };
};

// Adds up histograms of several workers.
const addUp = (histograms) => {
  const sums = new Map();
  for (const histogram of histograms) {
    for (const [value, count] of histogram) sums.set(value, (sums.get(value) || 0) + count);
  }
  return sums;
};

// [{label, counts: Map}] as shares of 1, over all values that occur in any of them.
const histogramChart = (groups, xTitle, unit) => {
  const values = [...new Set(groups.flatMap(({counts}) => [...counts.keys()]))];
  values.sort((a, b) => a - b);
  return barChart({
    names: values.map((value) => value === 256 ? '256 or more' : String(+value.toFixed(3))),
    xTitle,
    unit,
    sayValue: say.percent,
    groups: groups.map(({label, counts, color}) => {
      const sum = [...counts.values()].reduce((a, b) => a + b, 0) || 1;
      return {label, color, values: values.map((value) => (counts.get(value) || 0) / sum)};
    }),
  });
};
