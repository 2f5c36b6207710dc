'use strict';

const $ = (id) => document.getElementById(id);
const put = (id, text) => { const at = $(id); if (at.textContent !== text) at.textContent = text; };
const count = (n) => n.toLocaleString('en');

let view = null;
let source = null;

// Well apart for the first eight, and then by the golden angle.
const COLOURS = ['#3b82f6', '#f59e0b', '#10b981', '#e1497a', '#8b5cf6', '#14b8c4', '#84a312', '#c2703d'];
const colour = (n) => COLOURS[n] ?? `hsl(${Math.round(n * 137.5) % 360} 60% 50%)`;

function time(ms) {
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 100) return `${Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(2)} s`;
}

function show() {
  const { rush } = view;
  const stock = rush ? rush.ask.stock : view.left;
  put('left', count(view.left));
  $('shelf').max = Math.max(stock, 1);
  $('shelf').value = Math.max(view.left, 0);
  put('sold', count(view.sold));
  put('oversold', count(view.oversold));
  const over = view.oversold > 0;
  $('oversold-tile').className = over ? 'bad' : rush ? 'good' : '';
  put('queue', count(view.queue));
  put('sold_out', rush ? count(rush.sold_out) : '–');
  put('busy', rush ? count(rush.busy + rush.failed) : '–');
  put('per_s', rush ? count(rush.running ? rush.per_s : rush.per_s_max) : '–');
  put('wait_p50', rush ? time(rush.wait_p50_ms) : '–');
  put('wait_p99', rush ? time(rush.wait_p99_ms) : '–');
  put('local', count(view.handoffs_local));
  put('remote', count(view.handoffs_remote));
  put('about', `${view.servers.length} servers share one lock store (${view.store}) · a sale takes ${view.hold_ms} ms between reading the stock and writing it.`);
  $('rush').disabled = view.busy;
  showVerdict(rush, over);
  showServers();
  showRibbon(rush);
}

function showVerdict(rush, over) {
  const verdict = $('verdict');
  if (view.trouble) {
    verdict.className = 'bad';
    verdict.textContent = `The rush could not begin: ${view.trouble}`;
    return;
  }
  if (!rush) return;
  const { ask, running } = rush;
  if (running) {
    verdict.className = over ? 'bad' : '';
    verdict.textContent = ask.locked
      ? `${count(rush.answered)} of ${count(ask.buyers)} buyers are served, one order at a time.`
      : `${count(rush.answered)} of ${count(ask.buyers)} buyers are served, all at the same time: each reads the same stock.`;
  } else {
    verdict.className = over ? 'bad' : 'good';
    verdict.textContent = over
      ? `${count(view.oversold)} people have paid for an item that does not exist, and ${count(view.duplicates)} orders were taken twice.`
      : `${count(view.sold)} items sold in ${time(rush.elapsed_ms)}, each of them once.${refusals(rush)}`;
  }
}

function refusals({ busy }) {
  return busy ? ` ${count(busy)} buyers could not be served in time, and were told when to come back.` : '';
}

function showServers() {
  const list = $('servers');
  while (list.children.length < view.servers.length) {
    const card = document.createElement('div');
    const name = document.createElement('span');
    name.className = 'name';
    const waiting = document.createElement('b');
    const meter = document.createElement('progress');
    card.style.setProperty('--own', colour(list.children.length));
    card.append(name, waiting, meter);
    list.append(card);
  }
  const most = Math.max(50, ...view.servers.map((server) => server.waiters));
  view.servers.forEach((server, number) => {
    const card = list.children[number];
    card.className = `server ${server.holds ? 'holds' : ''} ${server.answers ? '' : 'silent'}`;
    const [name, waiting, meter] = card.children;
    name.textContent = server.address;
    waiting.textContent = server.answers ? `${count(server.waiters)} wait` : 'no answer';
    meter.max = most;
    meter.value = server.waiters;
  });
}

const CELL = 9;
const ROW = 16;

// Each cell is one order; they are read like a text.
function showRibbon(rush) {
  const canvas = $('ribbon');
  const width = canvas.clientWidth - 2;
  const perRow = Math.max(1, Math.floor((width - 8) / CELL));
  const grants = rush ? rush.grants : [];
  const rows = Math.max(4, Math.ceil(grants.length / perRow));
  const scale = devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * scale), Math.round((rows * ROW + 8) * scale)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.height = `${rows * ROW + 8}px`;
  }
  const pen = canvas.getContext('2d');
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, rows * ROW + 8);
  grants.forEach((grant, at) => {
    const sale = grant % 2 === 1;
    pen.fillStyle = colour(grant >> 1);
    pen.globalAlpha = sale ? 1 : 0.55;
    const x = 4 + (at % perRow) * CELL;
    const y = 4 + Math.floor(at / perRow) * ROW;
    if (sale) pen.fillRect(x, y, CELL - 1, ROW - 3);
    else pen.fillRect(x, y + (ROW - 3) / 2, CELL - 1, (ROW - 3) / 2);
  });
  pen.globalAlpha = 1;
}

let sayUntil = 0;
function state(kind, text) {
  if (performance.now() < sayUntil) return;
  $('state').className = kind;
  put('state', text);
}

$('form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const ask = { buyers: $('buyers').valueAsNumber, stock: $('stock').valueAsNumber, locked: $('locked').checked, hurry: $('hurry').checked };
  $('rush').disabled = true;
  try {
    const headers = { 'content-type': 'application/json', 'x-flash-sale': '1' };
    const answer = await fetch('rush', { method: 'POST', headers, body: JSON.stringify(ask) });
    if (!answer.ok) throw new Error(await answer.text());
  } catch (error) {
    state('gone', error.message);
    sayUntil = performance.now() + 4000;
    $('rush').disabled = false;
  }
});

$('locked').addEventListener('change', (event) => {
  event.target.nextElementSibling.textContent = event.target.checked ? 'with the lock' : 'without the lock';
  $('hurry').disabled = !event.target.checked;
});

function connect() {
  source = new EventSource('events');
  source.onopen = () => state('live', 'live');
  source.onerror = () => state('gone', 'no connection, trying again');
  source.onmessage = (event) => {
    const seen = JSON.parse(event.data);
    if (!seen) return state('gone', 'the shop does not answer');
    if (!view) {
      $('buyers').value = seen.buyers;
      $('stock').value = seen.stock;
    }
    view = seen;
    state('live', 'live');
    show();
  };
}

document.addEventListener('visibilitychange', () => {
  if (document.hidden) { source?.close(); source = null; }
  else if (!source) connect();
});
addEventListener('resize', () => { if (view) show(); });
connect();
