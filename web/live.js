// Shows a run while it goes on: newer data comes by server-sent events, or, where all streams are
// taken, by asking now and then. Nothing is asked for while nobody sees the page.
'use strict';
{
  const ASK_MS = 5000;
  const told = element('span', {id: 'live', class: 'soft', role: 'status'}, 'live');
  const pause = element('button', {type: 'button', id: 'pause', 'aria-pressed': 'false'}, 'pause');
  document.getElementById('theme').before(told, pause);
  document.getElementById('footer').replaceChildren('Made by leeway ',
    element('span', {id: 'version'}, shown.version), '. Newer data comes from the program alone.');

  let source = null, asking = null, newest = null, ended = false, freeAt = 0, waiting = null;
  const paused = () => pause.getAttribute('aria-pressed') === 'true';
  const tell = (text) => { if (told.textContent !== text) told.textContent = text; };

  // What the reader has opened stays open, and the page where it is.
  const showKept = (data) => {
    const key = (details) => `${details.closest('section').id} ${details.innerText}`;
    const open = new Set([...document.querySelectorAll('section details[open] > summary')]
      .map((summary) => key(summary)));
    const at = scrollY;
    show(data);
    for (const summary of document.querySelectorAll('section details > summary')) {
      if (open.has(key(summary))) summary.parentNode.open = true;
    }
    scrollTo(scrollX, at);
  };

  // A slow machine draws less often, and always the newest.
  const draw = () => {
    clearTimeout(waiting);
    if (newest === null || paused() || document.hidden) return;
    const wait = freeAt - performance.now();
    if (wait > 0 && !ended) { waiting = setTimeout(draw, wait); return; }
    const data = newest, begin = performance.now();
    newest = null;
    showKept(data);
    freeAt = performance.now() + 3 * (performance.now() - begin);
  };
  const take = (data) => { newest = data; draw(); };

  const finish = (text) => {
    ended = true;
    close();
    tell(text);
    draw();
  };
  const close = () => {
    if (source) source.close();
    source = null;
    clearInterval(asking);
    asking = null;
  };

  const ask = async () => {
    try {
      const answer = await fetch('data.json' + location.search);
      if (!answer.ok) throw new Error(answer.statusText);
      const data = await answer.json();
      take(data);
      tell('live, every few seconds');
      if (data.ended) finish('The run has ended; this is how it ended.');
    } catch {
      tell('The server does not answer; the run has ended, or goes on without it.');
    }
  };

  const open = () => {
    if (ended || source || asking) return;
    source = new EventSource('events' + location.search);
    source.addEventListener('open', () => tell('live'));
    source.addEventListener('message', (event) => take(JSON.parse(event.data)));
    source.addEventListener('ended', (event) => finish(event.data));
    source.addEventListener('error', () => {
      if (source && source.readyState === EventSource.CLOSED) {  // refused: all streams are taken
        close();
        asking = setInterval(ask, ASK_MS);
        ask();
      } else {
        tell('The server does not answer; trying again.');
      }
    });
  };

  pause.addEventListener('click', () => {
    pause.setAttribute('aria-pressed', String(!paused()));
    pause.textContent = paused() ? 'go on' : 'pause';
    draw();
  });
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) { close(); } else { open(); draw(); }
  });
  if (!document.hidden) open();
}
