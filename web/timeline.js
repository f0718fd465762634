// Works on the SVG of timeline_svg(): all boxes share one transform, however many there are, and
// only visible labels are created again. `root` contains the SVG and its buttons.
'use strict';
const startTimeline = (root) => {
  const SPACE = root.querySelector('svg.timeline').namespaceURI;
  const tip = document.getElementById('tip');
  const DIGIT = 6.2, TICKS = 10, ZOOM_MAX = 2000;

  const timeText = (ns) => {
    const [name, unit] =
      ns >= 1e9 ? ['s', 1e9] : ns >= 1e6 ? ['ms', 1e6] : ns >= 1e3 ? ['µs', 1e3] : ['ns', 1];
    return Number((ns / unit).toPrecision(4)) + ' ' + name;
  };
  const make = (parent, tag, attributes, text) => {
    const element = document.createElementNS(SPACE, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
  };
  const ticks = (begin, end) => {
    const least = (end - begin) / TICKS;
    const power = 10 ** Math.floor(Math.log10(least));
    const step = Math.max(1, power * [1, 2, 5, 10].find((factor) => power * factor >= least));
    const [name, unit] =
      end >= 1e9 ? ['s', 1e9] : end >= 1e6 ? ['ms', 1e6] : end >= 1e3 ? ['µs', 1e3] : ['ns', 1];
    const decimals = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
    const found = [];
    for (let i = 0; i <= TICKS; ++i) {
      const time = (Math.ceil(begin / step) + i) * step;
      if (time <= end) found.push([time, (time / unit).toFixed(decimals) + ' ' + name]);
    }
    return found;
  };

  class Picture {
    constructor(group) {
      this.begin = Number(group.dataset.begin);
      this.length = Number(group.dataset.end) - this.begin;
      this.plot = group.querySelector('.plot');
      this.boxes = group.querySelector('.boxes');
      this.grid = group.querySelector('.grid');
      this.numbers = group.querySelector('.numbers');
      this.axis = group.querySelector('.axis');
      this.width = this.plot.width.baseVal.value;
      this.height = this.plot.height.baseVal.value;
      this.zoom = 1;
      this.left = 0;  // position of the left edge, in pixels without zoom
      this.labels = [];
      this.paths = new Map();  // microbatch of a replica -> its boxes in all stages
      for (const lane of this.boxes.querySelectorAll('.lane')) this.readLane(lane);
      this.listen();
    }

    readLane(lane) {
      const replica = lane.dataset.worker.split(',')[0].replace(/^stage.*/, '');
      const top = lane.transform.baseVal[0].matrix.f;
      for (const rect of lane.children) {
        let kind = rect.classList[0];
        if (kind === 'several' || kind === 'update' || kind === 'save') continue;
        if (rect.classList.contains('evaluation')) kind = 'evaluate';
        const index = rect.dataset.w.split(' ')[0];
        const x = rect.x.baseVal.value, width = rect.width.baseVal.value;
        const y = top + rect.y.baseVal.value + rect.height.baseVal.value / 2 + 4;
        this.labels.push({x, width, y, kind, text: index});
        if (kind !== 'forward' && kind !== 'backward') continue;
        const key = replica + '/' + index;
        if (!this.paths.has(key)) this.paths.set(key, []);
        this.paths.get(key).push(rect);
        rect.path = key;
      }
    }

    at(event) {  // the event's position in pixels without zoom
      const point = new DOMPoint(event.clientX, event.clientY);
      return point.matrixTransform(this.plot.getScreenCTM().inverse()).x;
    }

    show(zoom, left) {
      this.zoom = Math.min(Math.max(zoom, 1), ZOOM_MAX);
      this.left = Math.min(Math.max(left, 0), this.width * (1 - 1 / this.zoom));
      if (this.pending) return;
      this.pending = true;
      requestAnimationFrame(() => { this.pending = false; this.draw(); });
    }

    draw() {
      const {zoom, left, width} = this;
      this.boxes.setAttribute('transform', `scale(${zoom},1) translate(${-left},0)`);
      this.numbers.replaceChildren();
      for (const {x, width: wide, y, kind, text} of this.labels) {
        const middle = (x + wide / 2 - left) * zoom;
        if (middle < 0 || middle > width || wide * zoom < DIGIT * text.length + 3) continue;
        make(this.numbers, 'text', {class: 'on-' + kind, x: middle, y}, text);
      }
      this.grid.replaceChildren();
      this.axis.replaceChildren();
      const begin = this.begin + left / width * this.length;
      for (const [time, label] of ticks(begin, begin + this.length / zoom)) {
        const x = ((time - this.begin) / this.length * width - left) * zoom;
        make(this.grid, 'path', {d: `M${x} 0V${this.height}`});
        make(this.axis, 'text', {x}, label);
      }
    }

    zoomBy(factor, x = this.width / 2) {
      const fixed = this.left + x / this.zoom;
      const zoom = Math.min(Math.max(this.zoom * factor, 1), ZOOM_MAX);
      this.show(zoom, fixed - x / zoom);
    }

    moveBy(share) { this.show(this.zoom, this.left + share * this.width / this.zoom); }

    listen() {
      const plot = this.plot;
      plot.addEventListener('wheel', (event) => {
        if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;  // the page scrolls
        event.preventDefault();
        // With Shift, some systems report horizontal scrolling.
        this.zoomBy(Math.exp(-(event.deltaY || event.deltaX) / 300), this.at(event));
      }, {passive: false});
      plot.addEventListener('dblclick', () => this.show(1, 0));
      plot.addEventListener('pointerdown', (event) => {
        if (event.button !== 0 || this.zoom === 1) return;
        this.drag = {x: this.at(event), left: this.left};
        plot.setPointerCapture(event.pointerId);
      });
      plot.addEventListener('pointermove', (event) => {
        if (!this.drag) return this.point(event);
        this.show(this.zoom, this.drag.left - (this.at(event) - this.drag.x) / this.zoom);
      });
      plot.addEventListener('pointerup', () => { this.drag = null; });
      plot.addEventListener('pointercancel', () => { this.drag = null; });
      plot.addEventListener('pointerleave', () => this.point(null));
    }

    point(event) {
      const rect = event && event.target.closest('.boxes rect');
      this.light(rect ? rect.path : undefined);
      tip.hidden = !rect;
      if (!rect) return;
      tip.textContent = words(rect);
      const {offsetWidth: wide, offsetHeight: high} = tip;
      tip.style.left = Math.max(8, Math.min(event.clientX + 14, innerWidth - wide - 8)) + 'px';
      // Below the picture, so that the microbatch's path stays visible; next to the pointer if that
      // is far away, above it if there is no room below.
      const bottom = this.plot.getBoundingClientRect().bottom + 22;
      const below = bottom - event.clientY > 260 ? event.clientY + 18 : bottom;
      tip.style.top = (below + high > innerHeight ? event.clientY - high - 12 : below) + 'px';
    }

    light(path) {
      if (path === this.lit) return;
      for (const rect of this.paths.get(this.lit) || []) rect.classList.remove('on-path');
      for (const rect of this.paths.get(path) || []) rect.classList.add('on-path');
      this.boxes.classList.toggle('path', path !== undefined);
      this.lit = path;
    }
  }

  const words = (rect) => {
    const worker = rect.parentNode.dataset.worker;
    if (rect.dataset.several) {
      const busy = Math.round(rect.dataset.share * 100);
      return `${rect.dataset.several}\n${worker}, busy ${busy} %\nzooming does not split them: ` +
        '`leeway timeline --updates A:B` does';
    }
    const [index, update, version, delay, bytes, begin, took] =
      rect.dataset.w.split(' ').map(Number);
    const kind = rect.classList[0];
    const lines = [`${kind}, ${worker}`];
    if (kind === 'forward' || kind === 'backward') {
      lines.push(`microbatch ${index} of update ${update}`);
    } else if (kind === 'evaluate') {
      lines.push(`batch ${index}, weights of update ${update}`);
    } else if (rect.dataset.round) {
      lines.push(rect.dataset.round);
      lines.push(`after update ${update}`);
    } else {
      lines.push(`update ${update}`);
    }
    if (!rect.dataset.round) lines.push(`version ${version}, delay ${delay}`);
    lines.push(`took ${timeText(took)}, from ${timeText(begin)}`);
    lines.push(`sent ${bytes.toLocaleString('en')} bytes`);
    return lines.join('\n');
  };

  const pictures = [...root.querySelectorAll('.picture')].map((group) => new Picture(group));
  const all = (action) => () => pictures.forEach(action);
  const actions = {
    in: all((picture) => picture.zoomBy(2)),
    out: all((picture) => picture.zoomBy(0.5)),
    left: all((picture) => picture.moveBy(-0.25)),
    right: all((picture) => picture.moveBy(0.25)),
    whole: all((picture) => picture.show(1, 0)),
  };
  for (const button of root.querySelectorAll('[data-action]')) {
    button.addEventListener('click', actions[button.dataset.action]);
  }
  const keys = {'+': 'in', '=': 'in', '-': 'out', ArrowLeft: 'left', ArrowRight: 'right',
    '0': 'whole'};
  root.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    actions[keys[event.key]]();
  });
  root.querySelector('.tools').hidden = false;
};
