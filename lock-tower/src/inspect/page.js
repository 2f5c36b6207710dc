'use strict';
// All that comes from the server is put in as text, never as markup: a key may hold anything.

const base = location.pathname.replace(/\/+$/, '');
const OPEN_EVERY_MS = 2000;
const $ = (id) => document.getElementById(id);

const rows = new Map(); // key -> the elements of its row
let snapshot = null;
let fleet = null; // the store's busy keys, while those of all processes are shown
let fleetTimer = null;
let source = null;
let opened = null; // the key whose details are shown
let openedTimer = null;
let paused = false;
const leases = new Map(); // key -> the longest lease seen, which is what the bar is full at

function el(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function time(ms) {
  if (ms === null || ms === undefined) return '–';
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60000)} min ${Math.round(ms / 1000) % 60} s`;
}

const pair = (seen) => `${time(seen.p50_ms)} / ${time(seen.p99_ms)}`;
const count = (n) => n.toLocaleString('en');
const put = (cell, text) => { if (cell.textContent !== text) cell.textContent = text; };

const STATS = [
  ['held', 'held here'], ['waiters', 'waiting here'], ['keys', 'busy keys'], ['acquired', 'acquired'],
  ['handoffs_local', 'local hand-offs'], ['handoffs_remote', 'remote hand-offs'],
  ['timeouts', 'timed out'], ['refused', 'refused'], ['lost', 'lost'], ['store_requests', 'store requests'],
];

function showStats(stats) {
  const list = $('stats');
  for (const [name, label] of STATS) {
    let value = list.querySelector(`dd[data-stat="${name}"]`);
    if (!value) {
      const tile = el('div');
      value = el('dd');
      value.dataset.stat = name;
      tile.append(el('dt', label), value);
      list.append(tile);
    }
    put(value, count(stats[name]));
  }
}

// By what the keys are sorted.
const ORDERS = {
  line: (a, b) => b.waiters - a.waiters || ORDERS.key(a, b),
  key: (a, b) => (a.key < b.key ? -1 : 1),
  held: (a, b) => (b.hold?.held_ms ?? -1) - (a.hold?.held_ms ?? -1),
  lease: (a, b) => (a.hold?.lease_left_ms ?? Number.MAX_VALUE) - (b.hold?.lease_left_ms ?? Number.MAX_VALUE),
  refused: (a, b) => (b.refused ?? -1) - (a.refused ?? -1),
  holds: (a, b) => (b.holds?.p99_ms ?? -1) - (a.holds?.p99_ms ?? -1),
  waits: (a, b) => (b.waits?.p99_ms ?? -1) - (a.waits?.p99_ms ?? -1),
};

const isOfAll = () => $('scope').value === 'all';
const where = () => (isOfAll() ? 'held by' : 'here');

// What the store says of each key, with what this process knows of it.
function ofAll() {
  const here = new Map(snapshot.keys.map((busy) => [busy.key, busy]));
  return fleet.keys.map(({ key, holders, waiters }) => {
    const [holder, ...others] = holders;
    const busy = here.get(key);
    const by = holder ? (holder.about ?? holder.claim) : '';
    return {
      refused: null, holds: null, waits: null, ...busy, key,
      waiters: waiters.length,
      by: others.length ? `${by} and ${count(others.length)} more` : by,
      hold: holder ? { ...holder, held_ms: busy?.hold?.held_ms ?? holder.held_ms } : null,
    };
  });
}

async function survey() {
  clearTimeout(fleetTimer);
  if (!isOfAll()) {
    fleet = null;
    show();
    return;
  }
  let every = OPEN_EVERY_MS;
  try {
    const asked = await fetch(`${base}?of=all`, { headers: { accept: 'application/json' } });
    fleet = await answerOf(asked);
    every = fleet.refresh_ms;
  } catch (error) {
    say(error.message);
  }
  show();
  if (!document.hidden && !paused) {
    clearTimeout(fleetTimer);
    fleetTimer = setTimeout(survey, every);
  }
}

function sorted(keys) {
  return [...keys].sort(ORDERS[$('sort').value]);
}

function makeRow(key) {
  const row = el('tr');
  row.dataset.key = key;
  const cell = (label, className) => {
    const made = el('td', undefined, className);
    if (label) made.dataset.label = label;
    row.append(made);
    return made;
  };
  const keyCell = cell('', 'key');
  const toggle = el('button', key);
  toggle.type = 'button';
  toggle.setAttribute('aria-expanded', 'false');
  toggle.addEventListener('click', () => open(opened === key ? null : key));
  keyCell.append(toggle);
  const tag = el('span', '', 'tag');
  const by = el('span', '', 'by');
  const who = cell('here');
  who.append(tag, ' ', by);
  const waiters = cell('waiters', 'n');
  const lease = cell('lease left');
  const meter = el('meter');
  meter.min = 0;
  const left = el('span', '', 'small');
  const bar = el('span', undefined, 'bar');
  bar.append(meter, ' ', left);
  lease.append(bar);
  const parts = {
    row, toggle, who, tag, by, waiters, lease, bar, meter, left,
    held: cell('held for', 'n'), token: cell('token', 'n mono'), refused: cell('refused', 'n'),
    holds: cell('hold p50 / p99', 'n'), waits: cell('wait p50 / p99', 'n'),
    detail: null,
  };
  rows.set(key, parts);
  return parts;
}

function fill(parts, busy) {
  const { hold } = busy;
  const kind = hold ? 'held' : busy.waiters > 0 ? 'waiting' : 'asking';
  put(parts.tag, kind === 'asking' ? 'asking the store' : kind);
  parts.tag.className = `tag ${kind}`;
  parts.who.dataset.label = where();
  put(parts.by, busy.by ?? '');
  put(parts.waiters, count(busy.waiters));
  // Not every store tells when a lease ends.
  const isTimed = hold?.lease_left_ms !== undefined && hold?.lease_left_ms !== null;
  parts.bar.hidden = !isTimed;
  parts.lease.toggleAttribute('data-empty', !isTimed);
  if (isTimed) {
    const full = Math.max(leases.get(busy.key) ?? 0, hold.lease_left_ms);
    leases.set(busy.key, full);
    parts.meter.max = full || 1;
    parts.meter.low = full / 3;
    parts.meter.value = hold.lease_left_ms;
    put(parts.left, time(hold.lease_left_ms));
  }
  fillWith(parts.held, hold?.held_ms, time);
  fillWith(parts.token, hold?.token, (token) => token);
  fillWith(parts.refused, busy.refused, count);
  fillWith(parts.holds, busy.holds, pair);
  fillWith(parts.waits, busy.waits, pair);
}

// A cell of which nothing is known is not shown on a phone.
function fillWith(cell, value, text) {
  const isEmpty = value === null || value === undefined;
  put(cell, isEmpty ? '–' : text(value));
  cell.toggleAttribute('data-empty', isEmpty);
}

function show() {
  if (!snapshot) return;
  const keys = isOfAll() && fleet ? ofAll() : snapshot.keys;
  const wanted = $('filter').value.toLowerCase();
  const body = $('keys');
  const seen = new Set();
  const focused = document.activeElement;
  let next = body.firstElementChild;
  for (const busy of sorted(keys)) {
    if (wanted && !busy.key.toLowerCase().includes(wanted)) continue;
    seen.add(busy.key);
    const parts = rows.get(busy.key) ?? makeRow(busy.key);
    fill(parts, busy);
    if (parts.row === next) next = next.nextElementSibling;
    else body.insertBefore(parts.row, next);
    if (parts.detail) {
      if (parts.detail === next) next = next.nextElementSibling;
      else parts.row.after(parts.detail);
    }
  }
  for (const [key, parts] of rows) {
    if (seen.has(key)) continue;
    // What is looked at stays until it is closed: the store may know more of it.
    if (key === opened && !wanted) {
      fill(parts, { key, hold: null, waiters: 0, refused: 0 });
      put(parts.tag, 'idle here');
      continue;
    }
    if (key === opened) open(null);
    parts.row.remove();
    rows.delete(key);
    leases.delete(key);
  }
  // A row that was moved has lost it.
  if (focused !== document.activeElement && body.contains(focused)) focused.focus();
  $('prefix').hidden = !snapshot.prefix;
  put($('prefix'), snapshot.prefix ? `below ${snapshot.prefix}:` : '');
  $('none').hidden = rows.size > 0;
  $('scope').hidden = !snapshot.listing;
  put($('where'), where());
  $('table').classList.toggle('of-all', isOfAll());
  const note = $('note');
  note.hidden = isOfAll() ? fleet?.is_whole ?? true : snapshot.keys_omitted === 0;
  put(note, isOfAll()
    ? 'There are more busy keys than are listed.'
    : `${count(snapshot.keys_omitted)} more keys with fewer waiters are not listed.`);
  showStats(snapshot.stats);
}

function open(key) {
  clearTimeout(openedTimer);
  const before = rows.get(opened);
  if (before) {
    before.detail?.remove();
    before.detail = null;
    before.toggle.setAttribute('aria-expanded', 'false');
  }
  opened = key;
  const parts = rows.get(key);
  if (!parts) return;
  parts.toggle.setAttribute('aria-expanded', 'true');
  parts.detail = el('tr', undefined, 'detail');
  const cell = el('td');
  cell.colSpan = 9;
  cell.append(el('p', 'asking the store …', 'small'));
  parts.detail.append(cell);
  parts.row.after(parts.detail);
  look(key);
}

const pathOf = (key) => `${base}/${encodeURIComponent(key)}`;

async function answerOf(response) {
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.detail ?? `the server answered ${response.status}`);
  return answer;
}

async function look(key) {
  try {
    const asked = await fetch(pathOf(key), { headers: { accept: 'application/json' } });
    const answer = await answerOf(asked);
    if (opened === key) showDetail(key, answer);
  } catch (error) {
    const cell = opened === key ? rows.get(key)?.detail?.firstElementChild : null;
    cell?.replaceChildren(el('p', error.message, 'small'));
  }
  if (opened === key && !document.hidden && !paused) {
    clearTimeout(openedTimer);
    openedTimer = setTimeout(look, OPEN_EVERY_MS, key);
  }
}

function showDetail(key, { holders, waiters }) {
  const cell = rows.get(key)?.detail?.firstElementChild;
  if (!cell) return;
  const held = el('div');
  for (const holder of holders) {
    const by = el('p', 'at the store held by ');
    by.append(el('code', holder.claim), modeOf(holder));
    if (holder.about) by.append(' · ', holder.about);
    if (holder.held_ms !== null) by.append(` · for ${time(holder.held_ms)}`);
    if (holder.token) by.append(' · token up to ', el('code', holder.token));
    if (holder.lease_left_ms !== null) by.append(` · lease ends in ${time(holder.lease_left_ms)}`);
    held.append(by);
  }
  if (!holders.length) held.append(el('p', 'at the store nobody holds it'));
  const parts = [held];
  const line = waiters.length ? `${count(waiters.length)} in line, one per process:` : 'nobody in line';
  parts.push(el('p', line, 'small'));
  if (waiters.length) {
    const list = el('ol');
    for (const waiter of waiters) {
      const item = el('li');
      item.append(el('code', waiter.claim), modeOf(waiter));
      if (waiter.about) item.append(' · ', waiter.about);
      list.append(item);
    }
    parts.push(list);
  }
  if (snapshot?.force_release && holders.length) {
    const actions = el('div', undefined, 'actions');
    const take = el('button', 'Take it away from its holder …', 'danger');
    take.type = 'button';
    take.addEventListener('click', () => confirmTaking(key));
    actions.append(take);
    parts.push(actions);
  }
  // A button with the focus is not swapped under a finger.
  if (cell.contains(document.activeElement)) cell.firstElementChild.replaceWith(held);
  else cell.replaceChildren(...parts);
}

// Most hold a key alone, and want to.
function modeOf({ mode }) {
  return mode === 'exclusive' ? '' : ` · ${mode}`;
}

function confirmTaking(key) {
  const dialog = $('confirm');
  $('confirm-key').textContent = key;
  $('confirm-no').onclick = () => dialog.close();
  $('confirm-yes').onclick = async () => {
    dialog.close();
    try {
      const headers = { 'x-lock-force-release': '1', accept: 'application/json' };
      const { released } = await answerOf(await fetch(pathOf(key), { method: 'DELETE', headers }));
      say(released ? `${key} was taken away` : `nobody held ${key}`);
    } catch (error) {
      say(error.message);
    }
    if (opened === key) { document.activeElement?.blur(); look(key); }
  };
  dialog.showModal();
}

let sayTimer = null;
function say(text) {
  const note = $('state');
  note.textContent = text;
  clearTimeout(sayTimer);
  sayTimer = setTimeout(live, 5000);
}

function live() {
  sayTimer = null;
  const state = $('state');
  if (paused) {
    state.className = '';
    state.textContent = 'paused';
    return;
  }
  state.className = source?.readyState === EventSource.OPEN ? 'live' : 'gone';
  state.textContent = state.className === 'live' ? 'live' : 'no connection';
}

function connect() {
  source = new EventSource(`${base}/events`);
  source.onopen = () => { if (!sayTimer) live(); };
  source.onmessage = (event) => { snapshot = JSON.parse(event.data); show(); };
  source.onerror = () => {
    const state = $('state');
    state.className = 'gone';
    // Refused for good: the browser does not try again by itself.
    const over = source.readyState === EventSource.CLOSED;
    state.textContent = over ? 'refused: load the page again' : 'no connection, trying again';
  };
}

// A page that nobody looks at, and one that is paused, asks for nothing.
function attend() {
  if (document.hidden || paused) {
    source?.close();
    source = null;
    clearTimeout(openedTimer);
    clearTimeout(fleetTimer);
    return;
  }
  if (!source) connect();
  if (opened) look(opened);
  if (isOfAll()) survey();
}

function pause() {
  paused = !paused;
  const button = $('pause');
  button.setAttribute('aria-pressed', String(paused));
  put(button, paused ? 'Go on' : 'Pause');
  attend();
  live();
}

// The focus goes to the key so many rows further on.
function step(by) {
  const keys = [...document.querySelectorAll('#keys .key button')];
  const at = keys.indexOf(document.activeElement);
  const from = at >= 0 ? at : by > 0 ? -1 : keys.length;
  keys[Math.min(Math.max(from + by, 0), keys.length - 1)]?.focus();
}

function escape(typing) {
  if (typing) {
    $('filter').value = '';
    document.activeElement.blur();
    show();
  } else if (opened) {
    const { toggle } = rows.get(opened);
    open(null);
    toggle.focus();
  }
}

function changeScope() {
  const scope = $('scope');
  if (scope.hidden) return;
  scope.value = isOfAll() ? 'here' : 'all';
  survey();
}

const KEYS = {
  j: () => step(1), k: () => step(-1), a: changeScope, p: pause, '/': () => $('filter').focus(),
};

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $('confirm').open) return;
  const typing = event.target === $('filter');
  if (event.key === 'Escape') {
    escape(typing);
  } else if (!typing && event.target.tagName !== 'SELECT' && Object.hasOwn(KEYS, event.key)) {
    event.preventDefault();
    KEYS[event.key]();
  }
});
document.addEventListener('visibilitychange', attend);
$('filter').addEventListener('input', show);
$('sort').addEventListener('change', show);
$('scope').addEventListener('change', survey);
$('pause').addEventListener('click', pause);
connect();
