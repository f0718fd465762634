// Shows a run in progress: newer data comes by server-sent events or, if all streams are in use, by
// polling. Nothing is requested while the page is hidden.
'use strict';
{
  const ASK_MS = 5000;
  const told = element('span', {id: 'live', class: 'soft', role: 'status'}, 'live');
  const pause = element('button', {type: 'button', id: 'pause', 'aria-pressed': 'false'}, 'pause');
  const activity = element('p', {id: 'activity', class: 'soft', role: 'status'});
  document.getElementById('theme').before(told, pause);
  document.querySelector('header').after(activity);
  document.getElementById('footer').replaceChildren('Made by leeway ',
    element('span', {id: 'version'}, shown.version), '. New data comes only from this program.');

  let source = null, asking = null, newest = null, ended = false, freeAt = 0, waiting = null;
  const paused = () => pause.getAttribute('aria-pressed') === 'true';
  const tell = (text) => { if (told.textContent !== text) told.textContent = text; };

  // Whether the run goes on, as far as its server can know. Counts on between two events.
  const NEWS_S = 60;
  const tellActivity = () => {
    const run = shown.runs[0];
    const age = run.written_at === null ? null : Math.max(0, Date.now() / 1000 - run.written_at);
    const texts = {
      running: () => 'Running: this page comes from the program that trains it.',
      unfinished: () => age === null ? 'Not started yet.' :
        (age < NEWS_S ? 'Running in another program' : 'Cut off, or still running elsewhere') +
          `: last event ${say.seconds(Math.round(age))} ago.`,
      finished: () => 'The run has ended: it is finished.',
      stopped: () => 'The run has ended before its last update; it can be resumed.',
      diverged: () => 'The run has ended: it diverged.',
    };
    const text = texts[run.state]();
    if (activity.textContent !== text) activity.textContent = text;
  };
  setInterval(tellActivity, ASK_MS);

  // Keeps opened details open, and the scroll position.
  const showKept = (data) => {
    const key = (details) => `${details.closest('section').id} ${details.innerText}`;
    const open = new Set([...document.querySelectorAll('section details[open] > summary')]
      .map((summary) => key(summary)));
    const at = scrollY;
    show(data);
    tellActivity();
    for (const summary of document.querySelectorAll('section details > summary')) {
      if (open.has(key(summary))) summary.parentNode.open = true;
    }
    scrollTo(scrollX, at);
  };

  // A slow machine draws less often, but always the newest data.
  const draw = () => {
    clearTimeout(waiting);
    if (newest === null || paused() || document.hidden) return;
    if (document.querySelector('input:active')) return;  // drawing would end the reader's drag
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
      if (data.ended) finish('The run has ended; this is its final state.');
    } catch {
      tell('The server does not respond; the run has ended or continues without it.');
    }
  };

  const open = () => {
    if (ended || source || asking) return;
    source = new EventSource('events' + location.search);
    source.addEventListener('open', () => tell('live'));
    source.addEventListener('message', (event) => take(JSON.parse(event.data)));
    source.addEventListener('ended', (event) => finish(event.data));
    source.addEventListener('error', () => {
      if (source && source.readyState === EventSource.CLOSED) {  // refused: all streams are in use
        close();
        asking = setInterval(ask, ASK_MS);
        ask();
      } else {
        tell('The server does not respond; retrying.');
      }
    });
  };

  pause.addEventListener('click', () => {
    pause.setAttribute('aria-pressed', String(!paused()));
    pause.textContent = paused() ? 'resume' : 'pause';
    draw();
  });
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) { close(); } else { open(); draw(); }
  });
  tellActivity();
  if (!document.hidden) open();
}
