// The charts: which data each one shows, and how it is drawn.
'use strict';
const COLORS = {
  light: ['#0072b2', '#d55e00', '#009e73', '#b3508a', '#8a6d00', '#3b3f8f', '#2a8fbd', '#6b4a1f'],
  dark: ['#56b4e9', '#ff9a4d', '#2fc79a', '#e79bc5', '#f0d442', '#a3a8ff', '#9adcff', '#d3ab7a'],
};
// Index of each axis in a point, and how to format its values.
const AXES = {
  tokens: {at: 1, title: 'tokens', say: say.count},
  time: {at: 2, title: 'seconds', say: say.seconds},
  averaged: {at: 3, title: 'bytes between replicas', say: say.bytes},
  bytes: {at: 4, title: 'bytes, all', say: say.bytes},
  updates: {at: 0, title: 'updates', say: say.count},
};
const POINT_COLUMNS = ['update', 'tokens', 'seconds', 'bytes_averaging', 'bytes', 'value'];
const VALUE = 5;

const isDark = () => document.documentElement.dataset.theme === 'dark';
const colorOf = (index) => {
  const colors = COLORS[isDark() ? 'dark' : 'light'];
  return colors[index % colors.length];
};
const styleOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Lines along one axis. `lines`: [{label, curve, color, dashed, dots}].
const lineChart = ({lines, axis, unit, logarithmic, zero}) => {
  const {at, title, say: sayAt} = AXES[axis];
  return {
    type: 'line',
    data: {datasets: lines.map(({label, curve, color, dashed, dots}) => ({
      label,
      data: curve.points.map((point) => ({x: point[at], y: point[VALUE]})),
      borderColor: color, backgroundColor: color,
      borderWidth: dots ? 2 : 1.5,
      borderDash: dashed ? [5, 4] : [],
      pointRadius: dots && curve.points.length < 60 ? 3 : curve.points.length === 1 ? 3 : 0,
      pointHitRadius: 6,
    }))},
    options: baseOptions({
      x: {type: 'linear', title, ticks: axis === 'tokens' || axis === 'updates' ? say.axis : sayAt},
      y: {type: logarithmic ? 'logarithmic' : 'linear', title: unit, ticks: say.axis,
        zero},
      tooltip: {
        title: (items) => items.length ? `${sayAt(items[0].parsed.x)} ${at < 2 ? title : ''}` : '',
        label: (item) => `${item.dataset.label}: ${say.short(item.parsed.y)}`,
      },
      legend: lines.length > 1,
    }),
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

const baseOptions = ({x, y, tooltip, legend}) => {
  const ink = styleOf('--soft'), line = styleOf('--line');
  const scale = ({type, title, ticks, max, zero}) => ({
    type, max, beginAtZero: Boolean(zero),
    title: {display: Boolean(title), text: title, color: ink},
    grid: {color: line, borderColor: line},
    ticks: {color: ink, maxRotation: 40, autoSkipPadding: 12,
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
const histogramChart = (groups, xTitle) => {
  const values = [...new Set(groups.flatMap(({counts}) => [...counts.keys()]))];
  values.sort((a, b) => a - b);
  return barChart({
    names: values.map((value) => value === 256 ? '256 or more' : String(value)),
    xTitle,
    unit: 'share',
    sayValue: say.percent,
    groups: groups.map(({label, counts, color}) => {
      const sum = [...counts.values()].reduce((a, b) => a + b, 0) || 1;
      return {label, color, values: values.map((value) => (counts.get(value) || 0) / sum)};
    }),
  });
};
