// show(data) builds the page from the data that report_page() embedded. It may be called again with
// newer data; the reader's choices stay.
'use strict';
const chosen = {axis: 'tokens', measure: 'loss', part: 'whole', smooth: 0, logarithmic: false,
  logarithmicX: false, hidden: new Set(), timeline: null};
let shown = null;   // the data
let charts = [];

const runColor = (run) => colorOf(shown.runs.indexOf(run));
const many = () => shown.runs.length > 1;
const of = (run, text) => many() ? `${run.name}, ${text}` : text;

// One chart in a card; `make` returns its Chart.js configuration, again when the theme changes.
const chartCard = (options, make) => {
  const canvas = element('canvas', {role: 'img', 'aria-label': options.title});
  const size = options.height ? {style: `height:${options.height}px`} : {};
  const made = card(options, element('div', {class: 'chart', ...size}, canvas),
    ...(options.below || []));
  charts.push({canvas, make, chart: null});
  return made;
};

const drawCharts = () => {
  if (typeof Chart === 'undefined') return;
  for (const entry of charts) {
    if (entry.chart) entry.chart.destroy();
    entry.chart = new Chart(entry.canvas, entry.make());
  }
};

// More threads than cores: the time of a piece of work includes waiting for a core.
const sharesCores = (run) => run.cores > 0 && run.threads > run.cores;
const coresText = (run) => `${run.threads} threads on ${run.cores} core${run.cores > 1 ? 's' : ''}`;
const waitingText = () => {
  const runs = shown.runs.filter(sharesCores);
  return runs.length ? ' Waiting for a core counts as busy: ' +
    runs.map((run) => of(run, coresText(run))).join('; ') + '.' : '';
};

const headlineTable = () => {
  const columns = ['run', 'validation loss, nats/token', 'perplexity',
    'training loss, mean of 20 updates', 'tokens/s',
    shown.runs.some(sharesCores) ? 'busy or waiting for a core' : 'busy', 'replicas sent',
    'of all-reduce', 'lag, updates', 'replica spread', 'agreement',
    'updates', 'progress', 'time left', 'epochs',
    'learning rate', 'tokens', 'time', 'state'];
  return {columns, rows: shown.runs.map((run) => {
    const head = run.headline;
    const cell = (key, words) => ({text: words(head[key]), value: head[key]});
    const progress = progressOf(run);
    const loss = cell('valid_loss', say.loss);
    if (run.validated_on) loss.text += ` on ${run.validated_on}`;
    return [{text: run.name, value: run.name, color: many() ? runColor(run) : ''},
      loss, cell('perplexity', say.perplexity), cell('train_loss', say.loss),
      cell('tokens_per_second', say.count), cell('busy', say.percent),
      cell('bytes_total_between_replicas', say.bytes), cell('traffic_share', say.percent),
      cell('lag_mean', say.short), cell('consensus', say.percent),
      cell('agreement', (word) => word ?? '–'), cell('updates', say.count),
      {text: say.percent(progress), value: progress}, cell('seconds_left', say.seconds),
      cell('epochs', say.short), cell('learning_rate', say.short), cell('tokens', say.count),
      cell('seconds', say.seconds), run.state];
  })};
};

// Null: unknown.
const progressOf = ({headline}) => headline.updates_wanted ?
  Math.min(1, headline.updates / headline.updates_wanted) : null;
const progressText = (run) => {
  const head = run.headline, share = progressOf(run);
  return [`update ${say.count(head.updates)}` + (share === null ? '' :
    ` of ${say.count(head.updates_wanted)} (${(100 * share).toFixed(0)} %)`),
  ...(head.epochs === null ? [] : [`${say.short(head.epochs)} epochs`]),
  ...(head.seconds_left === null ? [] : [`about ${say.seconds(head.seconds_left)} left`]),
  ].join(', ');
};
const progressBar = () => {
  const run = shown.runs[0], share = progressOf(run);
  if (share === null || (run.state !== 'running' && run.state !== 'unfinished')) return [];
  return [element('div', {class: 'progress', role: 'progressbar', 'aria-valuemin': 0,
    'aria-valuemax': 100, 'aria-valuenow': (100 * share).toFixed(0)},
  element('div', {style: `width:${(100 * share).toFixed(2)}%`})),
  element('p', {id: 'progress', class: 'soft'}, progressText(run))];
};

// The most important numbers, on a page about one run.
const tiles = () => {
  const run = shown.runs[0], head = run.headline;
  const tile = (key, name, words) => element('div', {class: 'tile'},
    element('b', {'data-key': key, 'data-value': head[key]}, words(head[key])),
    element('span', {}, name));
  return element('div', {class: 'tiles'},
    tile('valid_loss', 'validation loss, nats per token', say.loss),
    tile('perplexity', 'perplexity of the validation text', say.perplexity),
    tile('train_loss', 'training loss, mean of the last 20 updates', say.loss),
    tile('tokens_per_second', 'tokens/s', say.count),
    tile('busy', sharesCores(run) ? `busy or waiting for a core (${coresText(run)})` : 'busy',
      say.percent),
    tile('traffic_share', 'of the bytes of an all-reduce', say.percent),
    tile('epochs', 'epochs: times the text was read', say.short),
    tile('learning_rate', 'learning rate', say.short));
};

const PURPOSES = ['activations', 'gradients', 'averaging', 'evaluation'];
const trafficTable = () => ({
  columns: ['run', 'purpose', 'bytes', 'per update', 'share'],
  rows: shown.runs.flatMap((run) => {
    const head = run.headline;
    const all = PURPOSES.reduce((sum, purpose) => sum + head['bytes_' + purpose], 0);
    const row = (name, bytes, share) => [run.name, name, {text: say.bytes(bytes), value: bytes},
      {text: say.bytes(bytes / (head.updates || 1)), value: bytes / (head.updates || 1)},
      {text: say.percent(share), value: share}];
    const rows = PURPOSES.map((purpose) =>
      row(purpose, head['bytes_' + purpose], all ? head['bytes_' + purpose] / all : null));
    if (head.bytes_allreduce !== null) {
      rows.push(row('an all-reduce would have sent', head.bytes_allreduce, null));
    }
    return rows;
  }),
});

const workerTable = () => ({
  columns: ['run', 'replica', 'stage', 'busy', 'mean delay, updates', 'sent', 'pieces of work'],
  rows: shown.runs.flatMap((run) => run.workers.map((worker) => {
    const counts = worker.delays.reduce((sum, [, count]) => sum + count, 0);
    const delays = worker.delays.reduce((sum, [delay, count]) => sum + delay * count, 0);
    const mean = counts ? delays / counts : null;
    return [run.name, worker.replica, worker.stage,
      {text: say.percent(worker.busy), value: worker.busy},
      {text: say.short(mean), value: mean},
      {text: say.bytes(worker.bytes_sent), value: worker.bytes_sent},
      {text: say.count(worker.pieces), value: worker.pieces}];
  })),
});

const workersCard = () => {
  const table = workerTable();
  const few = table.rows.length <= 16;
  return table.rows.length ? card({id: 'workers', title: 'Workers', csv: workerTable},
    few ? tableOf(table) : element('details', {}, element('summary', {},
      `All workers: ${say.count(table.rows.length)}`), tableOf(table))) : null;
};

const BARS_MAX = 64;
const busyCard = () => {
  const workers = shown.runs.flatMap((run) => run.workers);
  if (!workers.length) return null;
  const key = (worker) => `replica ${worker.replica}, stage ${worker.stage}`;
  const names = [...new Set(workers.map(key))].slice(0, BARS_MAX);
  const cut = new Set(workers.map(key)).size > BARS_MAX ? ` The first ${BARS_MAX} workers.` : '';
  return chartCard({id: 'busy', title: 'Busy share of each worker', csv: workerTable,
    about: 'Share of the time from its first piece of work to its last update.' + waitingText() +
      cut},
  () => barChart({
    names: names.map((name) => name.replace('replica ', 'r').replace(', stage ', ' s')),
    sayValue: say.percent, max: 1, xTitle: 'r: replica, s: stage', unit: '% of the time',
    groups: shown.runs.map((run) => {
      const shares = new Map(run.workers.map((worker) => [key(worker), worker.busy]));
      return {label: run.name, color: many() ? runColor(run) : colorOf(0),
        values: names.map((name) => shares.get(name) ?? null)};
    }),
  }));
};

// By stage for one run, by run for several.
const delayGroups = () => {
  if (many()) {
    return shown.runs.map((run) => ({label: run.name, color: runColor(run),
      counts: addUp(run.workers.map((worker) => worker.delays))}));
  }
  const workers = shown.runs.flatMap((run) => run.workers);
  const stages = [...new Set(workers.map((worker) => worker.stage))].slice(0, 8);
  return stages.map((stage, i) => ({label: `stage ${stage}`, color: colorOf(i),
    counts: addUp(workers.filter((worker) => worker.stage === stage)
      .map((worker) => worker.delays))}));
};
const countTable = (groups, unit) => () => ({
  columns: ['of', unit, 'count'],
  rows: groups().flatMap(({label, counts}) =>
    [...counts].map(([value, count]) => [label, value, count])),
});
const histogramCard = (id, title, about, unit, groups, value = 'updates') => {
  if (!groups().some(({counts}) => counts.size)) return null;
  return chartCard({id, title, about, csv: countTable(groups, value)},
    () => histogramChart(groups(), value, unit));
};
const runGroups = (name) => () => shown.runs.map((run) => (
  {label: run.name, color: many() ? runColor(run) : colorOf(0), counts: addUp([run[name]])}));

// Who took part in which updates, of runs in which somebody was ever away.
const gapsIn = (ranges, last) => [...ranges, [last + 1]].map(([from], i) =>
  [i ? ranges[i - 1][1] + 1 : 1, from - 1]).filter(([from, to]) => from <= to);
const memberRows = () => shown.runs.flatMap((run) => {
  const last = run.members.reduce((most, {updates}) => Math.max(most, updates.at(-1)?.[1] ?? 0), 0);
  return run.members.map(({replica, updates}) => ({run, replica, last,
    label: of(run, `replica ${replica}`), bands: updates, gaps: gapsIn(updates, last)}));
});
const RANGES_MAX = 12;
const rangeText = ([from, to]) => from === to ? say.count(from) :
  `${say.count(from)} to ${say.count(to)}`;
const rangesText = (ranges) => (ranges.slice(0, RANGES_MAX).map(rangeText).join(', ') || 'none') +
  (ranges.length > RANGES_MAX ? ` and ${ranges.length - RANGES_MAX} more stretches` : '');
const membersTable = (rows) => ({
  columns: ['run', 'replica', 'took part in updates', 'updates away'],
  rows: rows.map(({run, replica, bands, gaps}) => {
    const away = gaps.reduce((sum, [from, to]) => sum + to - from + 1, 0);
    return [run.name, replica, rangesText(bands), {text: say.count(away), value: away}];
  }),
});
const membersCard = () => {
  const all = memberRows();
  if (!all.length) return null;
  const rows = all.length > BARS_MAX ? all.filter(({gaps}) => gaps.length).slice(0, BARS_MAX) : all;
  const cut = rows.length < all.length ? ` ${rows.length} of ${all.length} replicas.` : '';
  const table = tableOf(membersTable(rows));
  return chartCard({id: 'members', title: 'Replicas taking part', wide: true,
    height: BAND_ROW * rows.length + 60,
    about: 'Filled: the replica took part in these updates. Empty: it was away.' + cut,
    below: [rows.length <= 16 ? table : element('details', {}, element('summary', {},
      'In words'), table)],
    csv: () => ({columns: ['run', 'replica', 'from_update', 'to_update'],
      rows: all.flatMap(({run, replica, bands}) => bands.map(
        (range) => [run.name, replica, ...range]))})},
  () => bandChart({rows: rows.map((row) => ({...row, color: many() ? runColor(row.run) :
    colorOf(0)})), last: Math.max(...rows.map(({last}) => last)),
  sayBand: (range) => `took part in updates ${rangeText(range)}`,
  sayGap: (range) => `away in updates ${rangeText(range)}`}));
};

const configTable = (differing) => () => {
  const keys = [...new Set(shown.runs.flatMap((run) => Object.keys(run.config)))];
  const values = (key) => shown.runs.map((run) => run.config[key] ?? null);
  return {
    columns: ['key', ...shown.runs.map((run) => run.name)],
    rows: keys.filter((key) => !differing || new Set(values(key)).size > 1)
      .map((key) => [key, ...values(key)]),
  };
};
const configCard = () => {
  const parts = [];
  if (many()) {
    const table = configTable(true)();
    parts.push(table.rows.length ? tableOf(table) : element('p', {}, 'No key differs.'));
  }
  parts.push(element('details', {}, element('summary', {}, 'All keys'),
    tableOf(configTable(false)())));
  return card({id: 'configuration', csv: configTable(false), wide: true,
    title: many() ? 'Configuration differences' : 'Configuration'}, ...parts);
};

// The drawn boxes; one that stands for several pieces has their kinds but no numbers.
const timelineTable = () => {
  const numbers = ['microbatch_or_round', 'update', 'version', 'delay', 'bytes', 'begin_ns',
    'took_ns'];
  return {
    columns: ['worker', 'kind', ...numbers],
    rows: [...document.querySelectorAll('#timeline .boxes rect')].map((box) => [
      box.parentNode.dataset.worker, box.dataset.several || box.classList[0],
      ...(box.dataset.w ? box.dataset.w.split(' ') : numbers.map(() => ''))]),
  };
};
const timelineCard = () => {
  const runs = shown.runs.filter((run) => run.timeline);
  if (!runs.length) return null;
  const run = runs.find(({name}) => name === chosen.timeline) || runs[0];
  const choose = element('select', {'aria-label': 'run'},
    ...runs.map(({name}) => element('option', name === run.name ? {selected: ''} : {}, name)));
  choose.addEventListener('change', () => { chosen.timeline = choose.value; show(shown); });
  const tools = element('div', {class: 'tools', hidden: ''}, ...[['in', '+', 'zoom in'],
    ['out', '−', 'zoom out'], ['left', '←', 'earlier'], ['right', '→', 'later'],
    ['whole', 'whole', 'show all']].map(([action, text, label]) => element('button',
    {type: 'button', 'data-action': action, 'aria-label': label}, text)));
  const picture = element('div', {class: 'scroll picture-box'});
  picture.innerHTML = run.timeline;  // trusted: from timeline_svg()
  const made = card({id: 'timeline', title: 'Timeline', wide: true, csv: timelineTable,
    tools: many() ? [choose] : [],
    about: 'One row is one worker, and time runs to the right; a gap is waiting. ' +
      (sharesCores(run) ? `Boxes include waiting for a core: ${coresText(run)}. ` : '') +
      'Ctrl + wheel zooms, dragging moves; hover over a box for details.'}, tools, picture,
  ...run.timeline_notes.map((note) => element('p', {class: 'soft'}, note)));
  startTimeline(made);
  return made;
};

const comparisonCard = () => {
  const comparison = shown.comparison;
  if (!comparison) return null;
  const made = card({id: 'comparison', title: comparison.title, csv: () => comparison, wide: true},
    tableOf(comparison));
  if (comparison.fair) made.append(element('p', {}, comparison.fair));
  for (const note of comparison.notes || []) made.append(element('p', {class: 'note'}, note));
  return made;
};

const notesOf = () => [
  ...shown.notes,
  ...shown.runs.flatMap((run) => run.notes.map((note) => many() ? `${run.name}: ${note}` : note)),
  ...(typeof Chart === 'undefined' ? ['this program was built without Chart.js: no charts'] : []),
].map((note) => element('p', {class: 'note'}, note));

const happenedCard = () => {
  const rows = shown.runs.flatMap((run) => run.happened.map((what) => [run.name, what]));
  if (!rows.length) return null;
  const table = {columns: ['run', 'what happened'], rows};
  return card({id: 'happened', title: 'What happened', csv: () => table}, tableOf(table));
};

const cards = () => {
  const loss = lossCard();  // the first chart of the page
  const {speed, rate, spread, sizes, gradients, lag} = curveCards();
  return [
    comparisonCard(),
    card({id: 'runs', title: many() ? 'Runs' : 'Summary', csv: headlineTable, wide: true},
      ...(many() ? [] : [...progressBar(), tiles()]), tableOf(withoutEmpty(headlineTable()))),
    loss,
    membersCard(),
    busyCard(),
    speed,
    histogramCard('delays', 'Delay of gradients',
      'Updates between the weights a gradient was computed with and those it was applied to.',
      '% of the gradients', delayGroups),
    histogramCard('lags', 'Lag of merges', 'Updates between sending a part and merging its mean.',
      '% of the merges', runGroups('lags')),
    histogramCard('contributors', 'Contributors of means',
      'Replicas whose weights are in a mean; one: nothing was averaged.',
      '% of the means', runGroups('contributors'), 'contributors'),
    rate, spread, sizes, gradients, lag,
    card({id: 'traffic', title: 'Traffic', csv: trafficTable}, tableOf(trafficTable())),
    workersCard(),
    timelineCard(),
    happenedCard(),
    configCard(),
  ].filter(Boolean);
};

function show(data) {
  shown = data;
  for (const {chart} of charts) if (chart) chart.destroy();
  charts = [];
  document.title = data.title;
  document.getElementById('title').textContent = data.title;
  document.getElementById('version').textContent = data.version;
  const made = cards();
  const report = document.getElementById('report');
  report.replaceChildren(...notesOf(), element('div', {class: 'cards'}, ...made));
  document.getElementById('links').replaceChildren(...made.map((section) => element('a',
    {href: '#' + section.id}, section.querySelector('h2').textContent)));
  setTheme(isDark());  // for the style sheet of a new timeline
  drawCharts();
  report.dataset.charts = charts.filter(({chart}) => chart).length;
  report.dataset.shown = Number(report.dataset.shown || 0) + 1;
}

// Style sheets use a media query for dark colours. The theme button overrides it by making the
// query always or never true, in a form that can be recognized and changed again.
const setTheme = (dark) => {
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  document.documentElement.style.colorScheme = dark ? 'dark' : 'light';
  const query = '(prefers-color-scheme: dark)';
  for (const sheet of document.styleSheets) {
    for (const rule of sheet.cssRules) {
      if (!(rule instanceof CSSMediaRule) || !rule.media.mediaText.includes(query)) continue;
      rule.media.mediaText = dark ? query + ', all' : query + ' and (max-width: 0px)';
    }
  }
};
const redraw = (dark) => { setTheme(dark); show(shown); };
const darkWanted = matchMedia('(prefers-color-scheme: dark)');
darkWanted.addEventListener('change', () => redraw(darkWanted.matches));
document.getElementById('theme').addEventListener('click', () => redraw(!isDark()));
setTheme(darkWanted.matches);
show(JSON.parse(document.getElementById('data').textContent));
