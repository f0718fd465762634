// The cards with curves, and the tools above the loss that all of them follow.
'use strict';
// Which part of a run is drawn: from this share of the axis on. `whole` leaves the first steep
// updates above the axis, so that later differences can be seen.
const PARTS = {
  whole: {from: 0, name: 'whole run'},
  all: {from: 0, name: 'whole run, all values'},
  half: {from: 0.5, name: 'last half'},
  tenth: {from: 0.9, name: 'last tenth'},
};
const STEEP = 0.1;       // share of the axis in which the loss falls steeply
const FEW = 20;          // so few values are all shown
const SMOOTH_MAX = 0.99;

const curveTable = (names) => () => ({
  columns: ['run', 'curve', ...POINT_COLUMNS],
  rows: shown.runs.flatMap((run) => names.flatMap(
    (name) => run.curves[name].points.map((point) => [run.name, name, ...point]))),
});
const hasCurve = (names) => names.some(
  (name) => shown.runs.some((run) => run.curves[name].points.length > 0));
const thinnedText = (names) => {
  const thinned = shown.runs.flatMap((run) => names.map((name) => run.curves[name]))
    .filter((curve) => curve.thinned);
  if (!thinned.length) return '';
  const seen = Math.max(...thinned.map((curve) => curve.seen));
  const most = Math.max(...thinned.map((curve) => curve.points.length));
  return ` Thinned: ${say.count(most)} of ${say.count(seen)} points, smallest and largest kept.`;
};

// An exponential mean; its first values are not drawn towards zero.
const smoothed = (values, weight) => {
  let sum = 0, weights = 0;
  return values.map((value) => {
    sum = weight * sum + (1 - weight) * value;
    weights = weight * weights + (1 - weight);
    return sum / weights;
  });
};

const curveLines = ({names, words, exact, value}) => shown.runs.flatMap((run) => names.map(
  (name, i) => {
    const curve = run.curves[name].points;
    const dots = name.startsWith('valid_loss');
    const at = (values) => curve.map((point, k) => (
      {x: AXES[chosen.axis].of(point, run), y: value(values[k])}));
    const values = curve.map((point) => point[VALUE]);
    const smooth = chosen.smooth > 0 && !dots && !exact && values.length > 2;
    const own = many() && names.length === 1 ? run.name : of(run, words[i]);
    const label = dots && run.validated_on ? `${own} on ${run.validated_on}` : own;
    return {label, dots, color: many() ? runColor(run) : colorOf(i), dashed: many() && i > 0,
      hidden: chosen.hidden.has(label), raw: smooth ? at(values) : null,
      points: at(smooth ? smoothed(values, chosen.smooth) : values)};
  })).filter(({points}) => points.length > 0);

const quantile = (values, share) => {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
};

// The ends of both axes: x as far as there is data, y around what is shown there.
const fitted = (lines, {zero, steep}) => {
  const visible = lines.filter(({hidden}) => !hidden);
  const used = visible.length ? visible : lines;
  let first = Infinity, last = -Infinity;
  for (const {points} of used) {
    for (const {x} of points) {
      if (chosen.logarithmicX && x <= 0) continue;
      first = Math.min(first, x);
      last = Math.max(last, x);
    }
  }
  if (!(first < last)) return {x: {}, y: {}};
  if (first < 0.05 * last && !chosen.logarithmicX) first = 0;
  const from = first + PARTS[chosen.part].from * (last - first);
  const begin = steep && chosen.part === 'whole' ? first + STEEP * (last - first) : from;
  const valuesSince = (start) => used.flatMap(({points, dots}) => {
    const ys = points.filter(({x, y}) => x >= start && Number.isFinite(y)).map(({y}) => y);
    if (!steep || dots || ys.length < FEW || chosen.part === 'all') return ys;
    const most = quantile(ys, 0.99);  // a single spike would flatten everything else
    return ys.filter((y) => y <= most);
  });
  const late = valuesSince(begin);
  const values = late.length < FEW ? valuesSince(from) : late;
  return {x: {min: from, max: last},
    y: ends(values, {zero, logarithmic: steep && chosen.logarithmic})};
};

const isPerplexity = () => chosen.measure === 'perplexity';
const sayLoss = (value) => isPerplexity() ? `perplexity ${say.perplexity(value)}` :
  `${say.loss(value)} nats/token, perplexity ${say.perplexity(Math.exp(value))}`;

// `unit`: the title of its axis; `sayValue`: a value with its unit; `exact`: never smoothed.
const curveCard = ({id, title, names, words, about, unit, ticks, sayValue, tools, wide, zero,
  exact}) => {
  if (!hasCurve(names)) return null;
  const loss = id === 'loss';
  return chartCard({id, title, about: about + thinnedText(names), csv: curveTable(names), tools,
    wide}, () => {
    const value = loss && isPerplexity() ? Math.exp : (y) => y;
    const lines = curveLines({names, words, exact, value});
    return lineChart({lines, axis: chosen.axis, ...fitted(lines, {zero, steep: loss}), ticks,
      unit: loss && isPerplexity() ? 'perplexity' : unit, sayValue,
      logarithmicX: chosen.logarithmicX, logarithmicY: loss && chosen.logarithmic,
      toggle: (label) => {
        if (!chosen.hidden.delete(label)) chosen.hidden.add(label);
        requestAnimationFrame(drawCharts);  // not while the chart handles the click
      }});
  });
};

const chooser = (id, label, names, value, use) => {
  const made = element('select', {id, 'aria-label': label}, ...Object.entries(names).map(
    ([key, text]) => element('option', key === value ? {value: key, selected: ''} : {value: key},
      text)));
  made.addEventListener('change', () => { use(made.value); drawCharts(); });
  return made;
};
const checkbox = (id, text, value, use) => {
  const box = element('input', {type: 'checkbox', id});
  box.checked = value;
  box.addEventListener('change', () => { use(box.checked); drawCharts(); });
  return element('label', {}, box, ' ' + text);
};
const smoothSlider = () => {
  const told = element('output', {}, '');
  const tell = () => { told.textContent = chosen.smooth ? chosen.smooth.toFixed(2) : 'off'; };
  const slider = element('input', {type: 'range', id: 'smooth', min: 0, max: SMOOTH_MAX,
    step: 0.01, value: chosen.smooth});
  slider.addEventListener('input', () => {
    chosen.smooth = Number(slider.value);
    tell();
    drawCharts();
  });
  tell();
  return element('label', {class: 'slider'}, 'smooth ', slider, ' ', told);
};

const curveTools = () => {
  const axes = Object.entries(AXES).filter(
    ([key]) => key !== 'epochs' || shown.runs.every((run) => run.train_tokens > 0));
  return [
    chooser('measure', 'measure', {loss: 'loss', perplexity: 'perplexity'}, chosen.measure,
      (value) => { chosen.measure = value; }),
    chooser('axis', 'against', Object.fromEntries(
      axes.map(([key, {name}]) => [key, 'against ' + name])), chosen.axis,
    (value) => { chosen.axis = value; }),
    chooser('part', 'part', Object.fromEntries(
      Object.entries(PARTS).map(([key, {name}]) => [key, name])), chosen.part,
    (value) => { chosen.part = value; }),
    smoothSlider(),
    checkbox('logarithmic-x', 'log x', chosen.logarithmicX,
      (value) => { chosen.logarithmicX = value; }),
    checkbox('logarithmic', 'log y', chosen.logarithmic,
      (value) => { chosen.logarithmic = value; }),
  ];
};

// What optimizer.rate is not for.
const rateText = () => {
  const rates = shown.runs.map(({config}) => Number(config['optimizer.matrix_rate']) /
    Number(config['optimizer.rate']));
  const muon = shown.runs.some(({config}) => config['optimizer.name'] === 'muon');
  return muon && rates.every((rate) => rate === rates[0]) && rates[0] > 0 ?
    ` Muon's, for the matrices, is ${say.short(rates[0])} times as much.` : '';
};

const lossCard = () => curveCard({id: 'loss', title: 'Loss',
  names: ['valid_loss', 'train_loss', 'valid_loss_own'],
  words: ['validation', 'training', 'validation of one replica’s own weights'], wide: true,
  tools: curveTools(), unit: 'loss, nats per token', sayValue: sayLoss,
  about: 'Validation: of the mean of all replicas, or of the model that they have in common, ' +
    'unless it says otherwise. Training: the loss of single updates. The axis leaves out the ' +
    'first steep updates and single spikes; “all values” shows them. A click on a name in the ' +
    'legend hides its curve. All curves on this page follow the axis, the part and the ' +
    'smoothing chosen here.'});

const curveCards = () => ({
  speed: curveCard({id: 'speed', title: 'Speed', names: ['tokens_per_second'], words: ['speed'],
    unit: 'tokens/s', sayValue: (y) => say.count(y) + ' tokens/s',
    about: 'Mean of the last ten updates.'}),
  rate: curveCard({id: 'rate', title: 'Learning rate', names: ['learning_rate'], words: ['rate'],
    unit: 'learning rate', sayValue: say.short, zero: true, exact: true,
    about: 'optimizer.rate after warm-up and schedule.' + rateText()}),
  spread: curveCard({id: 'spread', title: 'Replica spread', names: ['consensus'],
    words: ['spread'], unit: '% of the norm of the weights', ticks: say.share,
    sayValue: say.percentShort,
    about: 'Distance of the replicas from their mean, relative to the norm of the weights.'}),
  sizes: curveCard({id: 'sizes', title: 'Drift and correction', names: ['drift', 'correction'],
    words: ['drift', 'correction'], unit: 'root mean square per weight', sayValue: say.short,
    about: 'At merges: local steps since the part was sent, and the change made by the merge.'}),
  gradients: curveCard({id: 'gradients', title: 'Gradient norm', names: ['gradient_norm'],
    words: ['norm'], unit: 'Euclidean norm', sayValue: say.short,
    about: 'Of the whole gradient, before clipping.'}),
  lag: curveCard({id: 'lag', title: 'Lag over the run', names: ['lag'], words: ['lag'],
    unit: 'updates', sayValue: (y) => say.short(y) + ' updates', zero: true,
    about: 'Mean over the merges of an update.'}),
});
