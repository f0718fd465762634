// Text, tables and CSV: what a page needs besides its charts.
'use strict';
const element = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};

// Formats numbers for people.
const say = {
  count: (value) => value === null ? '–' : Math.round(value).toLocaleString('en'),
  loss: (value) => value === null ? '–' : value.toFixed(4),
  percent: (value) => value === null ? '–' : (100 * value).toFixed(1) + ' %',
  percentShort: (value) => String(Number((100 * value).toPrecision(3))) + ' %',
  share: (value) => Number((100 * value).toPrecision(3)) + ' %',
  short: (value) => value === null ? '–' : String(Number(value.toPrecision(4))),
  seconds: (value) => {
    if (value === null) return '–';
    if (value < 120) return Number(value.toPrecision(3)) + ' s';
    const minutes = Math.round(value / 60);
    if (minutes < 120) return minutes + ' min';
    return minutes < 2880 ? (minutes / 60).toFixed(1) + ' h' : (minutes / 1440).toFixed(1) + ' d';
  },
  bytes: (value) => {
    if (value === null) return '–';
    const units = ['bytes', 'kB', 'MB', 'GB', 'TB'];  // as human_bytes() of src/base/human.h
    let power = 0;
    for (; value >= (power ? 999.95 : 1000) && power + 1 < units.length; ++power) value /= 1000;
    return (power ? value.toFixed(1) : Math.round(value)) + ' ' + units[power];
  },
  perplexity: (value) => value === null ? '–' :
    value < 100 ? value.toFixed(3) : say.count(value),
  axis: (value) => Math.abs(value) >= 1e3 ?
    new Intl.NumberFormat('en', {notation: 'compact'}).format(value) : Number(value.toPrecision(3)),
};

// A table as data: {columns: ['run', ...], rows: [[{text, value}, ...], ...]}. `value` goes
// into the CSV file; a cell may also be a plain string or number.
const cellText = (cell) => {
  if (cell === null || cell === undefined) return '–';
  if (typeof cell !== 'object') return typeof cell === 'number' ? say.short(cell) : cell;
  if ('failed' in cell) return 'failed: ' + cell.failed;
  if ('mean' in cell) return `${say.short(cell.mean)} ± ${say.short(cell.spread)}`;
  return cell.text;
};
const cellValue = (cell) => {
  if (cell === null || typeof cell !== 'object') return cell;
  if ('failed' in cell) return 'failed: ' + cell.failed;
  if ('mean' in cell) return `${cell.mean} ± ${cell.spread}`;
  return cell.value;
};

// A page about one run needs no column for it.
const withoutRun = ({columns, rows}) => columns[0] === 'run' && !many() ?
  {columns: columns.slice(1), rows: rows.map((row) => row.slice(1))} : {columns, rows};

// Only the columns in which some row has a value.
const withoutEmpty = ({columns, rows}) => {
  const filled = columns.map((_, i) => rows.some((row) => (cellValue(row[i]) ?? null) !== null));
  return {columns: columns.filter((_, i) => filled[i]),
    rows: rows.map((row) => row.filter((_, i) => filled[i]))};
};

const tableOf = (table) => {
  const {columns, rows} = withoutRun(table);
  const words = columns.map((_, i) => rows.some(
    (row) => typeof row[i] === 'string' || typeof row[i]?.value === 'string'));
  const style = (i) => words[i] ? {class: 'words'} : {};
  const head = element('tr', {}, ...columns.map((name, i) => element('th', style(i), name)));
  const body = rows.map((row) => element('tr', {}, ...row.map((cell, i) => {
    const made = element('td', style(i), cellText(cell));
    if (cell && typeof cell === 'object') {
      if ('failed' in cell) made.classList.add('failed');
      if (cell.value !== undefined) made.dataset.value = cell.value;
      if (cell.color) made.prepend(element('span', {class: 'dot', style: `--dot:${cell.color}`}));
    }
    return made;
  })));
  return element('div', {class: 'scroll'},
    element('table', {}, element('thead', {}, head), element('tbody', {}, ...body)));
};

const csvOf = ({columns, rows}) => {
  const quote = (value) => {
    const text = value === null || value === undefined ? '' : String(value);
    return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  const lines = [columns, ...rows.map((row) => row.map(cellValue))];
  return lines.map((line) => line.map(quote).join(',') + '\n').join('');
};

const csvButton = (name, table) => {
  const button = element('button', {type: 'button', class: 'csv', 'data-csv': name,
    title: 'download as CSV'}, 'CSV');
  button.addEventListener('click', () => {
    const address = URL.createObjectURL(new Blob([csvOf(table())], {type: 'text/csv'}));
    const link = element('a', {href: address, download: name + '.csv'});
    link.click();
    URL.revokeObjectURL(address);
  });
  return button;
};

// A section with a heading, its tools and a description.
const card = ({id, title, about, csv, tools = [], wide = false}, ...content) => {
  const bar = element('div', {class: 'bar'}, element('h2', {}, title), ...tools);
  if (csv) bar.append(csvButton(id, csv));
  const made = element('section', {class: wide ? 'card wide' : 'card', id}, bar, ...content);
  if (about) made.append(element('p', {class: 'soft'}, about));
  return made;
};
