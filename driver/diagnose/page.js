/* The page of --report. What came from a harness is only ever set as text, never as markup. */
(function () {
'use strict';
var data = JSON.parse(document.getElementById('data').textContent);
var result = data.result || {};
var LANES = ['engine', 'driver', 'harness', 'relay'];
var ROW = 27;

/* ---- small tools ------------------------------------------------------------------------------ */

function $(id) { return document.getElementById(id); }
/* el('div.card', 'text' or child or list): an element; text is text. */
function el(what, inner) {
  var parts = what.split('.'), node = document.createElement(parts[0]);
  if (parts.length > 1) node.className = parts.slice(1).join(' ');
  return fill(node, inner);
}
function fill(node, inner) {
  if (inner === undefined || inner === null) return node;
  (Array.isArray(inner) ? inner : [inner]).forEach(function (one) {
    if (one !== null && one !== undefined)
      node.appendChild(typeof one === 'object' ? one : document.createTextNode(String(one)));
  });
  return node;
}
function on(node, name, fn) { node.addEventListener(name, fn); return node; }
function button(what, inner, fn) {
  var node = el('button.' + what, inner);
  node.type = 'button';
  return on(node, 'click', fn);
}
function num(n) { return typeof n === 'number' ? n.toLocaleString('en-US') : '\u2013'; }
function ms(n) { return n >= 10000 ? (n / 1000).toFixed(1) + ' s' : n >= 1000 ? (n / 1000).toFixed(2) + ' s' : n + ' ms'; }
function bytes(n) { return n >= 1073741824 ? +(n / 1073741824).toFixed(2) + ' GiB' : n >= 1048576 ? (n / 1048576).toFixed(1) + ' MiB' : n >= 10240 ? (n / 1024).toFixed(0) + ' KiB' : num(n) + ' B'; }
function plural(n, one) { return num(n) + ' ' + one + (n === 1 ? '' : 's'); }
function parse(text) { try { return JSON.parse(text); } catch (e) { return undefined; } }
function short(text, most) { return text.length > most ? text.slice(0, most) + '\u2026' : text; }
function list(value) { return Array.isArray(value) ? value : []; }

/* Characters that hide, or turn others around, are shown by their numbers. */
var HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/;
function visible(node, text) {
  var rest = text, at;
  while ((at = rest.search(HIDDEN)) >= 0) {
    var width = rest.charCodeAt(at) === 0xdb40 ? 2 : 1;
    if (at > 0) node.appendChild(document.createTextNode(rest.slice(0, at)));
    node.appendChild(el('span.ctl', 'U+' + ('000' + rest.codePointAt(at).toString(16).toUpperCase()).slice(-Math.max(4, rest.codePointAt(at).toString(16).length))));
    rest = rest.slice(at + width);
  }
  node.appendChild(document.createTextNode(rest));
  return node;
}
function line(text) { return String(text).replace(/[\t\n\r]+/g, ' '); }

/* ---- colours ------------------------------------------------------------------------------------ */

var dark = window.matchMedia('(prefers-color-scheme: dark)'), theme = 'auto';
try { theme = localStorage.getItem('cfrunner-theme') || 'auto'; } catch (e) { /* a file may have no storage */ }
function paint() {
  document.documentElement.dataset.theme = theme === 'auto' ? (dark.matches ? 'dark' : 'light') : theme;
  document.querySelectorAll('[data-theme-choice]').forEach(function (b) {
    var is = b.dataset.themeChoice === theme;
    b.setAttribute('aria-checked', is);
    b.tabIndex = is ? 0 : -1;
  });
}
function choose(next, focus) {
  theme = next;
  try { localStorage.setItem('cfrunner-theme', theme); } catch (e) { /* then for this time only */ }
  paint();
  if (focus) document.querySelector('[data-theme-choice="' + theme + '"]').focus();
}
var THEMES = ['auto', 'light', 'dark'];
document.querySelectorAll('[data-theme-choice]').forEach(function (b) {
  on(b, 'click', function () { choose(b.dataset.themeChoice); });
  on(b, 'keydown', function (e) {
    var step = e.key === 'ArrowRight' || e.key === 'ArrowDown' ? 1 : e.key === 'ArrowLeft' || e.key === 'ArrowUp' ? 2 : 0;
    if (step) { e.preventDefault(); e.stopPropagation(); choose(THEMES[(THEMES.indexOf(theme) + step) % 3], true); }
  });
});
if (dark.addEventListener) dark.addEventListener('change', paint);
paint();

/* ---- events: what each is, in words ---------------------------------------------------------------- */

var events = list(data.events), methods = {}, frames = {}, observations = {}, calls = {}, causes = {};
var ledger = {};
list(result.model_calls).forEach(function (c) { ledger[c.id] = c; });

/* Phases are told at their end; each stands where it was told. A recording is sealed before the end of
 * its teardown, whose time is in the result. */
events.forEach(function (e, i) {
  e.i = i;
  if (e.k === 'p' && e.m === null && e.y === 'teardown' && !e.h && (result.teardown || {}).proven) {
    e.m = result.teardown.took_ms;
    e.t += e.m;
  }
  if (e.k === 'f') {
    e.json = e.c === undefined ? parse(e.x) : undefined;
    if (!frames[e.n] && e.n > 0) frames[e.n] = e;
    frames[e.u + '/' + e.n] = e;
  }
  if (e.k === 'o') {
    e.type = String(e.y).replace(/^observation\./, '');
    e.json = e.c === undefined ? parse(e.x) : undefined;
    observations[e.q] = e;
    if (e.n > 0) (causes[e.u + '/' + e.n] = causes[e.u + '/' + e.n] || []).push(e);
  }
  if (e.k === 'c') calls[e.n] = e;
});

function id(value) { return value === undefined || value === null ? '' : ' #' + line(value); }
/* What a frame is: a word that stands out, and what is worth a look in the list. */
function frameWords(e) {
  var m = e.json, update, text;
  if (m === undefined || m === null || typeof m !== 'object')
    return e.d === 0 && data.result.protocol === 'oneshot-v1' ? ['prompt', e.x] : ['', e.x];
  if (typeof m.type === 'string') return [m.type.replace(/^observation\./, ''), JSON.stringify(m.payload === undefined ? m : m.payload)];
  if (typeof m.method === 'string') {
    if (m.id !== undefined) methods[e.d + '/' + m.id] = m.method;
    update = m.params && m.params.update;
    if (update && typeof update === 'object') {
      text = update.content && typeof update.content.text === 'string' ? update.content.text : update.title || update.toolCallId || JSON.stringify(update);
      return [String(update.sessionUpdate || m.method), (update.status ? line(update.status) + ' \u00b7 ' : '') + text];
    }
    return [m.method + id(m.id), m.params === undefined ? '' : JSON.stringify(m.params)];
  }
  text = methods[(1 - e.d) + '/' + m.id];
  if (m.error) return ['error' + id(m.id) + (text ? ' of ' + text : ''), JSON.stringify(m.error)];
  if (m.id !== undefined) return ['answer' + id(m.id) + (text ? ' to ' + text : ''), JSON.stringify(m.result)];
  return ['', e.x];
}
function observationWords(e) {
  var p = e.json && e.json.payload;
  if (!p || typeof p !== 'object') return e.x;
  if (typeof p.content === 'string') return p.content;
  if (typeof p.error === 'object' && p.error && p.error.message) return p.error.message;
  return JSON.stringify(p);
}
/* kind: the chip it belongs to; from, to: lanes (equal: a dot); colour; num; head; rest */
function describe(e) {
  var w;
  switch (e.k) {
  case 'f':
    w = frameWords(e);
    return { kind: 'frames', from: e.d ? 2 : 1, to: e.d ? 1 : 2, colour: e.d ? 'harness' : 'driver', num: e.n > 0 ? 'f' + e.n : '', head: w[0], rest: w[1],
      title: e.n > 0 ? 'Frame ' + e.n : 'Prompt', lane: e.d ? 'harness \u2192 driver' : 'driver \u2192 harness' };
  case 'o':
    return { kind: 'observations', from: 1, to: 1, shape: 'ring', colour: /failed|failure/.test(e.type) ? 'bad' : 'driver', num: 's' + e.q, head: e.type,
      rest: observationWords(e), title: 'Observation ' + e.q, lane: 'told by the driver' };
  case 'c':
    return { kind: 'calls', from: 2, to: 3, colour: e.r || e.s >= 400 ? 'bad' : 'relay', num: 'r' + e.n, head: (e.r ? 'refused ' : e.s + ' ') + e.h,
      rest: ms(e.m) + (e.r ? ', ' + e.r : callWords(e)), title: 'Relay call ' + e.n, lane: 'harness \u2192 relay' };
  case 'p':
    w = /^(engine|image|sandbox|teardown)$/.test(e.y) ? 0 : e.y === 'relay' ? 3 : 1;
    return { kind: (e.h || e.y === 'turn') && e.m !== null ? 'steps' : 'phases', from: w === 0 ? 1 : w, to: w, shape: 'square', colour: e.m === null ? 'bad' : LANES[w], num: '', head: e.y + (e.h ? ': ' + e.h : ''),
      rest: e.m === null ? 'did not end' : ms(e.m), title: e.h ? 'Step' : 'Phase', lane: LANES[w] };
  case 'g':
    return { kind: 'findings', from: 1, to: 1, shape: 'diamond', colour: 'warn', num: e.n ? 'f' + e.n : '', head: e.y, rest: e.x, title: 'Finding', lane: 'driver' };
  case 'e':
    return { kind: 'stderr', from: 2, to: 2, shape: 'square', colour: 'harness', num: '', head: 'stderr', rest: e.x, title: 'Line on stderr', lane: 'harness' };
  case 'w':
    return { kind: 'phases', from: 1, to: 2, colour: 'driver', num: '', head: 'process starts', rest: e.x, title: 'Process', lane: 'driver \u2192 harness' };
  case 'u':
    return { kind: 'phases', from: 1, to: 1, shape: 'diamond', colour: e.y === 'finished' || e.y === 'requires_action' ? 'good' : 'bad', num: '', band: 'turn',
      head: 'turn ' + e.u + ' ' + line(e.y || ''), rest: [e.h, e.r, ms(e.m)].filter(Boolean).join(' \u00b7 '), title: 'End of turn ' + e.u, lane: 'driver' };
  default:
    return { kind: '', band: 'gap', num: '', head: plural(e.n, 'event') + ' left out here', rest: 'a page keeps the first and the last of a run; a recording (--record) has all', title: 'A gap', lane: '' };
  }
}
function callWords(e) {
  var c = ledger[e.n];
  return c ? ' \u00b7 ' + num(c.input_tokens) + '\u2192' + num(c.output_tokens) + ' tok' + (c.answered_nonce ? ' \u00b7 nonce' : '') : '';
}
events.forEach(function (e) {
  e.d2 = describe(e);
  e.hay = ((e.d2.num || '') + ' ' + e.d2.head + ' ' + e.d2.rest + ' ' + (e.x || '')).toLowerCase();
});

/* ---- the head ------------------------------------------------------------------------------------------ */

var good = data.exit_code === 0;
function count(status) { return list(data.checks).filter(function (c) { return c.status === status; }).length; }
var passed = count('passed'), failed = count('failed'), skipped = count('skipped'), all = list(data.checks).length;

$('verdict').className = 'verdict ' + (good ? 'good' : 'bad');
fill($('verdict'), [el('span.mark', good ? '\u2713' : '\u2717'), el('span', data.verdict)]);
visible($('name'), line(data.name));
(function () {
  var sub = $('sub');
  function put(label, value) { if (value) sub.appendChild(fill(el('span'), [label + ' ', visible(el('code'), line(value))])); }
  sub.appendChild(el('span', 'cfrunner ' + data.command));
  sub.appendChild(el('span', result.protocol));
  put('image', data.digest ? data.digest.slice(0, 19) + '\u2026' + data.digest.slice(-6) : data.reference);
  put('', data.made_at.replace('T', ' ').replace('Z', ' UTC'));
  sub.appendChild(el('span.tag', 'UNSIGNED LOCAL ONLY'));
})();

function tile(value, unit, label, bad, extra) {
  return fill(el('div.tile' + (bad ? '.bad' : '')), [fill(el('b'), [value, unit ? el('small', ' ' + unit) : null]), el('span', label), extra]);
}
function meter() {
  return fill(el('div.meter'), list(data.checks).slice(0, 60).map(function (c) { return el('i' + (c.status === 'failed' ? '.bad' : c.status === 'skipped' ? '.skip-mark' : '')); }));
}
(function () {
  var t = result.model_totals || {}, egress = result.egress, left = list((result.teardown || {}).left).length;
  var timings = result.timings_ms || {}, o = result.observations || {};
  var last = events.reduce(function (most, e) { return Math.max(most, e.t || 0); }, 0);
  fill($('tiles'), [
    tile(passed, 'of ' + all, 'proven' + (failed ? ', ' + failed + ' failed' : '') + (skipped ? ', ' + skipped + ' skipped' : ''), failed > 0, meter()),
    tile(num(t.served === undefined ? events.filter(function (e) { return e.k === 'c'; }).length : t.served), t.refused ? '+ ' + num(t.refused) + ' refused' : '', 'relay calls'),
    tile(num(t.input_tokens || 0), '\u2192 ' + num(t.output_tokens || 0), 'tokens, in \u2192 out'),
    tile(num(o.count || 0), '', 'observations'),
    tile(egress ? num((egress.allowed || 0) + (egress.denied || 0) + (egress.failed || 0)) : '0', egress && egress.denied ? num(egress.denied) + ' denied' : '', egress ? 'attempts outward' : 'ways outward open'),
    tile(left, '', 'left behind' + ((result.teardown || {}).proven ? ', proven' : ', not proven'), left > 0 || !(result.teardown || {}).proven),
    tile(((timings.total || last) / 1000).toFixed(2), 's', timings.total ? 'from start to end' : 'up to its last record'),
    tile(data.exit_code, '', 'exit code' + (good ? '' : ', blame: ' + data.blame), !good)
  ]);
})();

/* ---- checks ------------------------------------------------------------------------------------------------ */

function jump(e) { clearFilters(e); select(e, true); $('events').scrollIntoView({ block: 'start' }); }
/* A link for each piece of evidence that the page holds; facts and what it does not hold are named. */
function frameOf(piece) {
  var seen = piece.seq !== undefined && observations[piece.seq];
  return (piece.turn && frames[piece.turn + '/' + piece.frame]) || (seen && frames[seen.u + '/' + piece.frame]) || frames[piece.frame];
}
function evidence(check) {
  var links = [], seen = {};
  function link(label, act, title) {
    if (seen[label]) return;
    seen[label] = true;
    var node = act ? button('link', label, act) : el('span.link.still', label);
    if (title) node.title = line(title);
    links.push(node);
  }
  function event(label, e, note) { link(label, e ? function () { jump(e); } : null, note); }
  list(check.evidence).forEach(function (piece) {
    if (piece.seq !== undefined) event('s' + piece.seq, observations[piece.seq], piece.note);
    if (piece.frame) event('f' + piece.frame, frameOf(piece), piece.note);
    if (piece.call !== undefined) event('r' + piece.call, calls[piece.call], piece.note);
    if (typeof piece.fact === 'string') link(factName(piece.fact), function () { showFact(piece); }, piece.fact + ' = ' + piece.value + (piece.note ? ' \u00b7 ' + piece.note : ''));
    if (typeof piece.check === 'string') link(line(piece.check), toCheck(piece.check), piece.note);
  });
  return links.length > 6 ? links.slice(0, 6).concat(el('span.link.still', '+' + (links.length - 6))) : links;
}
/* The last step of a pointer; an index with what it counts. */
function factName(pointer) {
  var steps = line(pointer).split('/'), last = steps.pop();
  return /^\d+$/.test(last) && steps.length ? steps.pop() + ' ' + last : last;
}
function showFact(piece) {
  var value = parse(piece.value);
  select(null);
  $('detail').textContent = '';
  fill($('detail'), [fill(el('div.top'), [visible(el('h2'), factName(piece.fact)), el('span.faint', 'a fact of the result')]),
    pairs([['where', piece.fact], ['what it shows', piece.note]]), value !== null && typeof value === 'object' ? pretty(value) : raw(String(piece.value))]);
  $('events').scrollIntoView({ block: 'start' });
}
function toCheck(id) {
  return function () {
    var node = document.getElementById('check-' + id);
    if (node) { node.scrollIntoView({ block: 'center' }); node.focus(); }
  };
}
var MARKS = { passed: '\u2713', failed: '\u2717', skipped: '\u2013' };
(function () {
  var groups = [], by = {}, order = ['SETUP', 'HANDSHAKE', 'TURN', 'CAPABILITY', 'TORTURE', 'TEARDOWN', 'VERDICT'];
  list(data.checks).forEach(function (c) {
    if (!by[c.group]) groups.push(by[c.group] = { name: c.group, checks: [] });
    by[c.group].checks.push(c);
  });
  groups.sort(function (a, b) { return order.indexOf(a.name) - order.indexOf(b.name); });
  groups.forEach(function (g) {
    var box = el('div.checks-group', el('h3', g.name));
    g.checks.forEach(function (c) {
      var mark = el('span.mark', MARKS[c.status]);
      mark.setAttribute('role', 'img');
      mark.setAttribute('aria-label', c.status);
      var row = el('div.check.' + c.status), name = el('span.id', c.id);
      row.id = 'check-' + c.id;
      row.tabIndex = -1;
      if (c.rule) name.title = line(c.rule);
      box.appendChild(fill(row, [mark, name, visible(el('span.fact'), (c.status === 'skipped' ? 'skipped: ' : '') + line(c.summary)), el('span.links', evidence(c))]));
    });
    $('checks').appendChild(box);
  });
  list(data.checks).forEach(function (c) {
    if (c.status !== 'failed') return;
    $('trouble').hidden = false;
    $('trouble-list').appendChild(fill(el('div.wrong'), [
      visible(fill(el('p'), [el('strong', c.id), ' \u2014 ']), line(c.summary)),
      c.rule ? visible(fill(el('p.fix'), [el('b', 'Rule: ')]), line(c.rule)) : null,
      c.fix ? visible(fill(el('p.fix'), [el('b', 'Fix: ')]), line(c.fix)) : null, el('div.links', evidence(c))]));
  });
})();

/* ---- phases ---------------------------------------------------------------------------------------------------- */

(function () {
  var top = [], steps = {}, total = (result.timings_ms || {}).total || 1;
  events.forEach(function (e) {
    if (e.k !== 'p') return;
    e.began = e.m === null ? e.t : Math.max(0, e.t - e.m);
    e.over = e.m === null ? null : e.t;
    total = Math.max(total, e.t);
    if (e.h) (steps[e.y] = steps[e.y] || []).push(e);
    else top.push(e);
  });
  top.sort(function (a, b) { return a.began - b.began || a.i - b.i; });
  $('phases-total').textContent = total > 1 ? ms(total) : '';
  var colour = { session: 'driver', turn: 'harness', relay: 'relay', files: 'driver', hooks: 'driver', journal: 'driver' };
  function track(e, name) {
    var span = el('span.span.' + (colour[name] || 'engine') + (e.over === null ? '.open' : ''));
    span.style.left = 100 * e.began / total + '%';
    span.style.width = 100 * ((e.over === null ? total : e.over) - e.began) / total + '%';
    return el('span.track', span);
  }
  function inner(e, label, name) {
    return [el('span.label', label), track(e, name), el('span.ms', e.over === null ? 'did not end' : ms(e.m))];
  }
  var axis = el('div.axis'), turns = 0;
  for (var i = 0; i <= 4; i++) {
    var tick = el('span', i === 0 ? '0' : ms(Math.round(total * i / 4)));
    tick.style.left = 25 * i + '%';
    axis.appendChild(tick);
  }
  $('phases').appendChild(axis);
  top.forEach(function (e) {
    /* what belongs to it by its name, or fell into its time, as the parts of a teardown do */
    var mine = [].concat.apply([], Object.keys(steps).map(function (k) { return steps[k]; })).filter(function (s) {
      var end = e.over === null ? total : e.over;
      return s.began >= e.began && (s.over === null ? s.began : s.over) <= end && (s.y === e.y || e.y === 'teardown');
    });
    var label = e.y === 'turn' ? 'turn ' + (++turns) : e.y;
    if (!mine.length) { $('phases').appendChild(fill(el('div.phase'), inner(e, label, e.y))); return; }
    var box = el('div');
    box.hidden = true;
    mine.forEach(function (s) { box.appendChild(fill(el('div.phase.step'), inner(s, s.h, s.y))); });
    var head = button('phase', inner(e, label, e.y), function () {
      box.hidden = !box.hidden;
      head.setAttribute('aria-expanded', !box.hidden);
    });
    head.setAttribute('aria-expanded', 'false');
    fill($('phases'), [head, box]);
  });
  if (!top.length) $('phases').appendChild(el('p.faint', 'No phase was recorded.'));
  var legend = el('div.legend');
  [['engine', 'engine'], ['relay', 'relay'], ['driver', 'driver'], ['harness', 'harness at work']].forEach(function (l) {
    var dot = el('i');
    dot.style.background = 'var(--' + l[0] + ')';
    legend.appendChild(fill(el('span'), [dot, l[1]]));
  });
  $('phases').appendChild(legend);
})();

/* ---- the list ------------------------------------------------------------------------------------------------------ */

var KINDS = ['frames', 'observations', 'calls', 'findings', 'stderr', 'phases', 'steps'];
var NAMES = { calls: 'relay calls', steps: 'steps of phases' };
var shown = {}, view = 'lanes', chosen = null, rows = [], box = $('list');
KINDS.forEach(function (k) { shown[k] = k !== 'steps'; }); /* many, and seldom asked for: the phases above have them */

function laneX(lane) { return 12.5 + 25 * lane; }
function drawLanes(d) {
  var lanes = el('span.lanes'), mark;
  LANES.forEach(function (name, i) {
    var guide = el('i.guide');
    guide.style.left = laneX(i) + '%';
    lanes.appendChild(guide);
  });
  if (d.band === 'gap') return lanes;
  if (d.from === d.to) {
    mark = el('i.dot' + (d.shape ? '.' + d.shape : '') + '.c-' + d.colour);
    mark.style.left = laneX(d.to) + '%';
  } else {
    mark = el('i.arrow.' + (d.to > d.from ? 'right' : 'left') + '.c-' + d.colour);
    mark.style.left = laneX(Math.min(d.from, d.to)) + '%';
    mark.style.width = 25 * Math.abs(d.to - d.from) + '%';
  }
  lanes.appendChild(mark);
  return lanes;
}
/* Words that were searched for are marked, in what is shown of the text. */
function marked(node, text, words) {
  var at = -1, which = '', low = text.toLowerCase();
  if (low.length === text.length) words.forEach(function (w) {
    var i = low.indexOf(w);
    if (i >= 0 && (at < 0 || i < at)) { at = i; which = w; }
  });
  if (at < 0) return visible(node, text);
  visible(node, text.slice(0, at));
  node.appendChild(visible(el('mark'), text.slice(at, at + which.length)));
  return marked(node, text.slice(at + which.length), words);
}
function excerpt(text, words) {
  var at = words.length ? text.toLowerCase().indexOf(words[0]) : -1;
  return at > 120 ? '\u2026' + short(text.slice(at - 40), 240) : short(text, 240);
}
function drawRow(e, words) {
  var d = e.d2, row = el('div.row' + (d.band ? '.' + d.band : '')), what = el('span.what');
  row.id = 'e' + e.i;
  row.setAttribute('role', 'option');
  row.setAttribute('aria-selected', 'false');
  marked(what.appendChild(el('b')), line(short(d.head, 80)), words);
  if (d.rest) {
    what.appendChild(document.createTextNode('  '));
    marked(what.appendChild(el('span.rest')), line(excerpt(d.rest, words)), words);
  }
  row.appendChild(el('span.time', e.t === undefined ? '' : num(e.t)));
  row.appendChild(el('span.num', d.num));
  if (view === 'observations') {
    row.appendChild(el('span.kind', d.head));
    what.removeChild(what.firstChild);
  } else {
    row.appendChild(drawLanes(d));
  }
  row.appendChild(what);
  on(row, 'click', function () { select(e, true); });
  e.row = row;
  return row;
}
function words() { return $('search').value.toLowerCase().split(/\s+/).filter(Boolean); }
function wanted(e, ask) {
  if (e.k === 'x') return !ask.length;
  if (view === 'observations' && e.k !== 'o') return false;
  if (view === 'lanes' && !shown[e.d2.kind]) return false;
  return ask.every(function (w) { return e.hay.indexOf(w) >= 0; });
}
function draw() {
  var ask = words(), holder = document.createDocumentFragment(), real = 0;
  rows = events.filter(function (e) { e.row = null; return wanted(e, ask); });
  box.textContent = '';
  rows.forEach(function (e) { holder.appendChild(drawRow(e, ask)); real += e.k !== 'x'; });
  box.appendChild(holder);
  if (!real) box.appendChild(el('div.none', events.length ? 'Nothing here matches.' : 'This page holds no events.'));
  $('found').textContent = plural(real, ask.length ? 'hit' : 'event');
  $('events').classList.toggle('views-observations', view === 'observations');
  var heads = $('lane-heads'), lanes = el('span.lanes');
  heads.textContent = '';
  LANES.forEach(function (name, i) {
    var head = el('span.c-' + name, name);
    head.style.left = laneX(i) + '%';
    lanes.appendChild(head);
  });
  var time = el('span.time', 'ms'), number = el('span.num', 'no.');
  fill(heads, view === 'observations' ? [time, number, el('span', 'type'), el('span', 'content')] : [time, number, lanes, el('span', 'what')]);
  if (chosen && chosen.row) { mark(chosen); reveal(chosen); return; }
  box.removeAttribute('aria-activedescendant');
  box.scrollTop = 0;
}
function mark(e) {
  e.row.setAttribute('aria-selected', 'true');
  box.setAttribute('aria-activedescendant', e.row.id);
}
/* Into sight, in the list alone: the page stays where it is. */
function reveal(e) {
  var top = e.row.offsetTop - box.offsetTop, low = box.scrollTop, high = low + box.clientHeight;
  if (box.offsetParent !== e.row.offsetParent) top = e.row.offsetTop;
  if (top < low + ROW) box.scrollTop = top - 3 * ROW;
  else if (top + 2 * ROW > high) box.scrollTop = top - box.clientHeight + 4 * ROW;
}
function select(e, quiet) {
  if (chosen && chosen.row) chosen.row.setAttribute('aria-selected', 'false');
  chosen = e;
  if (!e) { drawDetail(null); return; }
  if (e.row) { mark(e); reveal(e); }
  drawDetail(e);
  if (quiet && e.d2.num && window.history.replaceState)
    try { history.replaceState(null, '', '#' + anchor(e)); } catch (err) { /* where a file may not */ }
}
function anchor(e) { return e.k === 'f' ? 'f' + (e.u > 1 && data.result.protocol === 'oneshot-v1' ? e.u + '/' : '') + e.n : e.d2.num; }
function clearFilters(e) {
  if (e.row) return;
  $('search').value = '';
  KINDS.forEach(function (k) { shown[k] = true; });
  if (e.k !== 'o') setView('lanes'); else draw();
  drawChips();
}
function step(by, test) {
  var at = rows.indexOf(chosen), i;
  if (at < 0) at = by > 0 ? -1 : rows.length;
  for (i = at + by; i >= 0 && i < rows.length; i += by > 0 ? 1 : -1)
    if (!test || test(rows[i])) { select(rows[i], true); return; }
  if (!test && rows.length) select(rows[by > 0 ? rows.length - 1 : 0], true);
}

/* ---- the chosen one ------------------------------------------------------------------------------------------------- */

/* JSON for eyes, each token by its kind. */
function pretty(value) {
  var node = el('pre.text'), text = JSON.stringify(value, null, 2);
  var token = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g, from = 0, m;
  while ((m = token.exec(text)) !== null) {
    node.appendChild(document.createTextNode(text.slice(from, m.index)));
    node.appendChild(visible(el('span.' + (m[2] !== undefined ? 'k' : m[1] !== undefined ? 's' : m[3] !== undefined ? 'w' : 'd')), m[1] || m[0]));
    if (m[2] !== undefined) node.appendChild(document.createTextNode(m[2]));
    from = token.lastIndex;
  }
  node.appendChild(document.createTextNode(text.slice(from)));
  return node;
}
function pairs(table) {
  var dl = el('dl.pairs');
  table.forEach(function (p) {
    if (p[1] === undefined || p[1] === null || p[1] === '') return;
    dl.appendChild(el('dt', p[0]));
    dl.appendChild(typeof p[1] === 'object' ? el('dd', p[1]) : visible(el('dd'), line(p[1])));
  });
  return dl;
}
function raw(text) { return visible(el('pre.text'), text); }
function links(events2) {
  return events2.map(function (o) { return button('link', o.d2.num + ' ' + o.d2.head, function () { jump(o); }); });
}
function body(e) {
  var parts = [];
  if (e.x === undefined) return parts;
  if (e.c !== undefined)
    parts.push(el('p.note', 'Shortened: the first ' + bytes(e.c) + ' of ' + bytes(e.b || e.c) + '. A recording (--record) has all of it.'));
  if (e.json !== undefined && e.json !== null && typeof e.json === 'object') {
    var nice = pretty(e.json), plain = raw(e.x);
    plain.hidden = true;
    var flip = button('button', 'as sent', function () {
      nice.hidden = !nice.hidden;
      plain.hidden = !plain.hidden;
      flip.textContent = plain.hidden ? 'as sent' : 'laid out';
    });
    parts.push(flip, nice, plain);
  } else {
    parts.push(raw(e.x));
  }
  return parts;
}
function drawDetail(e) {
  var pane = $('detail'), d, before, frame, related = [];
  pane.textContent = '';
  if (!e) { pane.appendChild(el('div.none', 'Choose an event: click it, or use the arrow keys.')); return; }
  d = e.d2;
  before = events.slice(0, e.i).reverse().find(function (x) { return x.t !== undefined; });
  if (e.k === 'f') related = causes[e.u + '/' + e.n] || [];
  frame = e.k === 'o' && e.n > 0 ? frames[e.u + '/' + e.n] || frames[e.n] : e.k === 'g' && e.n > 0 ? frames[e.u + '/' + e.n] || frames[e.n] : null;
  pane.appendChild(fill(el('div.top'), [visible(el('h2.c-' + d.colour), d.title), el('span.faint', d.lane),
    fill(el('span.steps'), [button('button', '\u2191 previous', function () { step(-1); }), button('button', '\u2193 next', function () { step(1); })])]));
  pane.appendChild(pairs([
    ['what', short(d.head, 200)],
    ['at', e.t === undefined ? '' : num(e.t) + ' ms' + (before ? ', ' + num(Math.max(0, e.t - before.t)) + ' ms after the event before' : '')],
    ['took', e.k === 'p' || e.k === 'u' ? (e.m === null ? 'did not end' : ms(e.m)) : e.k === 'c' ? ms(e.m) : ''],
    ['turn', e.u || ''], ['size', e.b === undefined ? '' : bytes(e.b)],
    ['frame', frame ? links([frame]) : e.k === 'o' && e.n ? 'f' + e.n + ', not kept on this page' : ''],
    ['became', related.length ? links(related) : '']
  ]));
  if (e.k === 'c' && ledger[e.n]) {
    pane.appendChild(el('h3', 'Ledger row'));
    pane.appendChild(pretty(ledger[e.n]));
  }
  if (e.k === 'u' && e.r) pane.appendChild(raw(e.r));
  fill(pane, body(e));
  pane.scrollTop = 0;
}

/* ---- facts --------------------------------------------------------------------------------------------------------------- */

(function () {
  function card(title, inner, place) {
    if (inner) $(place).appendChild(fill(el('section.card.wide'), [el('h2', title), inner]));
  }
  function table(heads, lines) {
    if (!lines.length) return null;
    return fill(el('table'), [fill(el('thead'), el('tr', heads.map(function (h) { return el('th', h); }))),
      fill(el('tbody'), lines.map(function (l) { return el('tr', l.map(function (c) { return visible(el('td'), line(c)); })); }))]);
  }
  function more(name) { return data.left_out && data.left_out[name] ? ' (' + num(data.left_out[name]) + ' more in the JSON result)' : ''; }
  var axes = list((result.declared || {}).axes), exit = (result.harness || {}).exit, engine = result.engine, iso = result.isolation || {};
  var steps = result.next_steps || {}, agent = (result.harness || {}).agent_info || {};
  card('Capabilities', table(['axis', 'declared', 'exercised', 'proven'], axes.map(function (a) {
    return [a.axis, a.declared ? '\u2713 yes' : '\u2013', a.exercised ? '\u2713 yes' : '\u2013', a.proven ? '\u2713 yes' : a.declared ? '\u2717 no' : '\u2013'];
  })), 'facts-left');
  card('Findings' + more('findings'), table(['what', 'frame', 'text'], list(result.findings).map(function (f) { return [f.id, f.frame ? 'f' + f.frame : '', f.text]; })), 'facts');
  card('Harness', exit || result.harness ? pairs([['agent', [agent.name, agent.version].filter(Boolean).join(' ')],
    ['ended', exit ? (exit.signal ? 'by signal ' + exit.signal : 'with exit code ' + exit.code) + (exit.oom !== 'no' ? ', out of memory: ' + exit.oom : '') : ''],
    ['memory, most', exit ? bytes(exit.max_rss_bytes) : ''], ['cpu', exit ? ms(Math.round((exit.user_us + exit.system_us) / 1000)) : ''],
    ['stdout, stderr', bytes((result.harness || {}).stdout_bytes || 0) + ', ' + bytes((result.harness || {}).stderr_bytes || 0)]]) : null, 'facts-right');
  card('Engine', engine ? pairs([['engine', (engine.podman ? 'Podman ' : 'Docker ') + engine.version + ', API ' + engine.api_version],
    ['at', engine.endpoint], ['platform', engine.os + '/' + engine.arch], ['storage', engine.storage_driver],
    ['image', data.reference.replace(/@sha256:.*/, '')], ['digest', data.digest]]) : null, 'facts-right');
  card('In force', result.isolation ? pairs([['network', iso.network], ['capabilities', 'dropped: ' + list(iso.cap_drop).join(', ')], ['seccomp', iso.seccomp],
    ['user', iso.user], ['memory', bytes((result.limits || {}).memory_bytes || 0)], ['cpus, pids', (result.limits || {}).cpus + ', ' + (result.limits || {}).pids],
    ['disk', bytes((result.limits || {}).disk_bytes || 0)]]) : null, 'facts-right');
  var tail = (result.harness || {}).stderr_tail;
  card('Last words on stderr', tail ? raw(tail) : null, 'facts');
  card('Last lines of the build', result.failure_tail ? raw(result.failure_tail) : null, 'facts');
  var shells = ['add', 'verify', 'verify_template', 'retest'].filter(function (s) { return steps[s]; });
  card('Next', shells.length ? fill(el('div'), shells.map(function (s) { return fill(el('div'), [el('h3', s.replace('_', ' ')), raw(steps[s].shell)]); })) : null, 'facts');
  $('foot').textContent = 'Made by cfrunner ' + data.version + '. One file, no network; it runs no script but its own. Unsigned author feedback, never conformance evidence.';
})();

/* ---- what hands do ---------------------------------------------------------------------------------------------------------- */

function setView(next) {
  view = next;
  document.querySelectorAll('[role="tab"]').forEach(function (t) {
    var is = t.dataset.view === view;
    t.setAttribute('aria-selected', is);
    t.tabIndex = is ? 0 : -1;
  });
  $('chips').hidden = view === 'observations';
  draw();
}
function drawChips() {
  $('chips').textContent = '';
  KINDS.forEach(function (k) {
    var n = events.filter(function (e) { return e.d2.kind === k; }).length;
    if (!n) return;
    var chip = button('chip', (NAMES[k] || k) + ' ' + num(n), function () {
      shown[k] = !shown[k];
      chip.setAttribute('aria-pressed', shown[k]);
      draw();
    });
    chip.setAttribute('aria-pressed', shown[k]);
    $('chips').appendChild(chip);
  });
}
document.querySelectorAll('[role="tab"]').forEach(function (t) {
  on(t, 'click', function () { setView(t.dataset.view); });
  on(t, 'keydown', function (e) {
    if (e.key !== 'ArrowRight' && e.key !== 'ArrowLeft') return;
    setView(view === 'lanes' ? 'observations' : 'lanes');
    document.querySelector('[role="tab"][aria-selected="true"]').focus();
    e.stopPropagation();
  });
});
on($('search'), 'input', draw);
on($('search'), 'keydown', function (e) {
  if (e.key === 'Escape') { $('search').value = ''; draw(); box.focus(); e.preventDefault(); }
  if (e.key === 'Enter' || e.key === 'ArrowDown') { step(1); if (e.key === 'ArrowDown') box.focus(); e.preventDefault(); }
  e.stopPropagation();
});
on($('keys-open'), 'click', function () { $('keys').showModal(); });
function isFrame(e) { return e.k === 'f'; }
on(document, 'keydown', function (e) {
  if (e.ctrlKey || e.metaKey || e.altKey || $('keys').open) return;
  var inList = document.activeElement === box || document.activeElement === document.body, acts = {
    '/': function () { $('search').focus(); $('search').select(); }, j: function () { step(1); }, k: function () { step(-1); },
    n: function () { step(1, isFrame); }, p: function () { step(-1, isFrame); }, l: function () { setView('lanes'); },
    o: function () { setView('observations'); }, t: function () { choose(THEMES[(THEMES.indexOf(theme) + 1) % 3]); },
    '?': function () { $('keys').showModal(); }, Escape: function () { $('search').value = ''; draw(); }
  }, inListOnly = {
    ArrowDown: function () { step(1); }, ArrowUp: function () { step(-1); }, PageDown: function () { step(15); }, PageUp: function () { step(-15); },
    Home: function () { if (rows.length) select(rows[0], true); }, End: function () { if (rows.length) select(rows[rows.length - 1], true); }
  };
  var act = acts[e.key] || (inList && document.activeElement === box ? inListOnly[e.key] : null);
  if (act) { e.preventDefault(); act(); }
});

/* #f17, #s4, #r1: a frame, an observation, a call; #f2/1 the first frame of the second turn. */
function byAnchor() {
  var name = decodeURIComponent(location.hash.slice(1)), rest = name.slice(1);
  return name[0] === 'f' ? frames[rest] : name[0] === 's' ? observations[rest] : name[0] === 'r' ? calls[rest] : undefined;
}
drawChips();
setView('lanes');
document.querySelector('.stage').classList.toggle('few', rows.length < 14);
(function () {
  var first = byAnchor(), bad = list(data.checks).find(function (c) { return c.status === 'failed'; });
  drawDetail(null);
  if (first) jump(first);
  else if (bad) {
    var at = null;
    list(bad.evidence).some(function (p) { return (at = (p.frame && frameOf(p)) || observations[p.seq] || calls[p.call] || null); });
    at = at || events.find(function (e) { return e.d2.colour === 'bad'; });
    if (at) select(at);
  }
})();
on(window, 'hashchange', function () { var e = byAnchor(); if (e && e !== chosen) jump(e); });
})();
