'use strict';
const SPAN = 120; // seconds that plots show
const WIDTH = 600;
const FEATURES = {
  'rx-checksumming': 'The card verifies checksums of what arrives',
  'tx-checksumming': 'The card makes checksums of what is sent',
  'scatter-gather': 'The card reads a frame from several buffers',
  'tcp-segmentation-offload': 'The card cuts large TCP writes, IPv4',
  'tx-tcp6-segmentation': 'The card cuts large TCP writes, IPv6',
  'large-receive-offload': 'The card merges TCP segments that arrive',
  'rx-vlan-offload': 'The card takes VLAN tags off',
  'tx-vlan-offload': 'The card puts VLAN tags on',
  'rx-vlan-filter': 'The card drops VLANs it was not told of',
};
const SHARES = [
  ['Checksums received', 'trireme_network_receive_checksums_total'],
  ['Checksums sent', 'trireme_network_transmit_checksums_total'],
  ['TCP segments cut', 'trireme_network_transmit_segments_total'],
];
const byId = (id) => document.getElementById(id);
let token = '', last = null, timer = 0;
const history = new Map(), cards = new Map();

// Elements are made, never parsed: nothing a name holds can become markup.
function make(tag, attributes, ...children) {
  const svg = ['svg', 'path'].includes(tag);
  const element = svg ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
function say(element, text, title) {
  if (element.textContent !== text) element.textContent = text;
  if (title !== undefined) element.title = title;
}

function parse(text) {
  const families = new Map();
  for (const line of text.split('\n')) {
    const match = /^([a-z0-9_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!match) continue;
    const labels = {};
    for (const [, name, value] of (match[2] || '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[name] = value.replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c));
    }
    if (!families.has(match[1])) families.set(match[1], []);
    families.get(match[1]).push({ labels, value: Number(match[3]) });
  }
  return families;
}
// The samples of a family that carry these labels.
function pick(sample, family, labels) {
  return (sample.get(family) || []).filter((s) => Object.entries(labels || {}).every(([k, v]) => s.labels[k] === v));
}
function sum(sample, family, labels) {
  return pick(sample, family, labels).reduce((total, s) => total + s.value, 0);
}

function digits(value) {
  return value >= 99.95 || value === 0 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}
function scaled(value, base, units) {
  let n = 0;
  while (value >= base * 0.9995 && n < units.length - 1) { value /= base; n += 1; }
  return (n === 0 && value >= 10 ? Math.round(value) : digits(value)) + '\u00a0' + units[n];
}
const bits = (v) => scaled(v, 1000, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s', 'Tbit/s']);
const bytes = (v) => scaled(v, 1000, ['B', 'kB', 'MB', 'GB', 'TB']);
const memory = (v) => scaled(v, 1024, ['B', 'KiB', 'MiB', 'GiB']);
const count = (v) => (v < 10000 ? exact(Math.round(v)) : scaled(v, 1000, ['', 'k', 'M', 'G']).trim());
const perSecond = (v) => (v > 0 && v < 10 ? digits(v) : count(v)) + '/s';
const exact = (v) => v.toLocaleString('en-US');
function duration(seconds) {
  const d = Math.floor(seconds / 86400), h = Math.floor(seconds / 3600) % 24, m = Math.floor(seconds / 60) % 60;
  const parts = [[d, 'd'], [h, 'h'], [m, 'min'], [Math.floor(seconds) % 60, 's']].filter(([n]) => n > 0);
  return parts.slice(0, 2).map(([n, unit]) => n + '\u00a0' + unit).join(' ') || '0\u00a0s';
}
function ceiling(value) {
  let ten = 1000;
  while (ten * 10 < value) ten *= 10;
  return ten * [1, 2, 3, 4, 5, 6, 8, 10].find((step) => step * ten >= value);
}

function tile(name, text, detail, share, title) {
  let element = byId('tile-' + name);
  if (!element) {
    element = make('div', { class: 'tile', id: 'tile-' + name }, make('span', {}, name), make('b'), make('span'));
    if (share !== undefined) element.insertBefore(make('div', { class: 'bar' }, make('i')), element.lastChild);
    byId('tiles').append(element);
  }
  say(element.querySelector('b'), text, title);
  say(element.lastChild, detail);
  if (share !== undefined) element.querySelector('i').style.width = (100 * Math.min(1, share)).toFixed(1) + '%';
}

function machine(now, before, dt) {
  const cpu = (s, mode) => sum(s, 'trireme_cpu_seconds_total', { mode });
  if (now.has('trireme_cpu_seconds_total')) {
    const idle = before ? cpu(now, 'idle') - cpu(before, 'idle') : cpu(now, 'idle');
    const busy = before ? cpu(now, 'busy') - cpu(before, 'busy') : cpu(now, 'busy');
    const share = idle + busy > 0 ? busy / (idle + busy) : 0;
    tile('Processor', digits(100 * share) + '\u00a0%', 'busy, ' + digits(100 - 100 * share) + '\u00a0% idle', share);
  }
  for (const [name, family, what] of [
    ['Memory', 'trireme_memory', 'of '], ['Socket buffers', 'trireme_socket_buffers', 'of at most '],
  ]) {
    if (!now.has(family + '_size_bytes')) continue;
    const size = sum(now, family + '_size_bytes'), used = sum(now, family + '_used_bytes');
    tile(name, memory(used), what + memory(size), used / size, exact(used) + ' bytes');
  }
  if (now.has('trireme_sockets')) {
    const state = (state) => sum(now, 'trireme_sockets', { protocol: 'tcp', state });
    const all = sum(now, 'trireme_sockets', { protocol: 'tcp' });
    const other = all - state('listen') - state('established') - state('closed');
    const rest = `${count(state('listen'))} listening, ${count(other)} opening or closing`;
    tile('TCP connections', count(state('established')), rest);
  }
  const total = (family) => {
    const all = sum(now, family), rate = before && dt > 0 ? Math.max(0, all - sum(before, family)) / dt : 0;
    return [all, rate];
  };
  if (cards.size > 0) {
    const [again, rate] = total('trireme_network_tcp_retransmits_total');
    tile('TCP retransmits', perSecond(rate), count(again) + ' in all', undefined, exact(again) + ' segments');
    const families = ['trireme_network_receive_drops_total', 'trireme_network_transmit_drops_total'].map(total);
    const [drops, dropRate] = families.reduce(([a, b], [c, d]) => [a + c, b + d]);
    tile('Drops', perSecond(dropRate), count(drops) + ' in all', undefined, exact(drops) + ' frames');
  }
}

function path(name) { return make('path', { class: name }); }
function canvas(height, ...paths) {
  return make('svg', { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' }, ...paths);
}

// The elements of one card, made once.
function addCard(device) {
  const card = { root: make('section', { class: 'card', 'aria-label': device, 'data-device': device }), shares: [] };
  card.link = make('span', { class: 'pill' });
  card.about = make('p');
  card.rows = {};
  const legend = make('div', { class: 'legend' });
  for (const [key, text] of [['in', 'Received'], ['out', 'Sent']]) {
    card[key] = make('output', { 'data-direction': key });
    card[key + 'Detail'] = make('small');
    legend.append(make('div', {}, make('p', {}, make('i', { class: key }), text), card[key], card[key + 'Detail']));
  }
  card.paths = ['in-area', 'out-area', 'in-line', 'out-line'].map(path);
  const grid = make('path', { class: 'grid', d: `M0 1H${WIDTH}M0 80H${WIDTH}M0 159H${WIDTH}` });
  card.top = make('span', { class: 'y' });
  card.middle = make('span', { class: 'y' });
  card.plot = make('div', { class: 'plot' }, canvas(160, grid, ...card.paths), card.top, card.middle,
    make('div', { class: 'x' }, make('span', {}, '2 min ago'), make('span', {}, '1 min'), make('span', {}, 'now')));
  card.top.style.top = '.2rem';
  card.middle.style.top = '5.2rem';
  const shares = make('div', { class: 'shares' });
  for (const [title] of SHARES) {
    const share = { of: make('b'), hw: make('span'), sw: make('span'), paths: [path('hw-area'), path('sw-area')] };
    shares.append(make('div', { class: 'share' }, make('h3', {}, share.of, title), canvas(100, ...share.paths),
      make('p', {}, make('span', {}, make('i', { class: 'hw' }), share.hw), make('span', {}, make('i', { class: 'sw' }), share.sw))));
    card.shares.push(share);
  }
  card.features = make('table');
  card.absent = make('p', { class: 'note' });
  card.losses = make('table');
  card.root.append(make('header', {}, make('h2', {}, device), card.link, card.about), legend, card.plot, shares,
    make('div', { class: 'lists' }, make('div', {}, make('h3', {}, 'Features'), card.features, card.absent),
      make('div', {}, make('h3', {}, 'Drops'), card.losses)));
  byId('cards').append(card.root);
  cards.set(device, card);
  history.set(device, []);
  return card;
}

function drawThroughput(card, points, now) {
  const x = (t) => (WIDTH - ((now - t) * WIDTH) / SPAN).toFixed(1);
  const top = ceiling(Math.max(0, ...points.map((p) => Math.max(p.in, p.out))));
  const y = (v) => (159 - (158 * v) / top).toFixed(1);
  ['in', 'out'].forEach((key, n) => {
    const line = points.map((p) => `${x(p.t)} ${y(p[key])}`).join('L');
    card.paths[n].setAttribute('d', points.length > 1 ? `M${x(points[0].t)} 159L${line}L${x(points.at(-1).t)} 159Z` : '');
    card.paths[n + 2].setAttribute('d', points.length > 1 ? 'M' + line : '');
  });
  say(card.top, bits(top));
  say(card.middle, bits(top / 2));
}
function drawShare(share, points, n, now) {
  const x = (t) => WIDTH - ((now - t) * WIDTH) / SPAN;
  let hw = '', sw = '';
  for (const p of points) {
    const [card, software] = p.shares[n];
    if (card + software <= 0) continue;
    const from = x(p.t - p.dt).toFixed(1), to = x(p.t).toFixed(1), y = (100 - (100 * card) / (card + software)).toFixed(1);
    hw += `M${from} 100V${y}H${to}V100Z`;
    sw += `M${from} 0V${y}H${to}V0Z`;
  }
  share.paths[0].setAttribute('d', hw);
  share.paths[1].setAttribute('d', sw);
}

function drawCard(device, now, before, t, dt) {
  const card = cards.get(device) || addCard(device);
  const info = pick(now, 'trireme_network_info', { device })[0].labels;
  const addresses = pick(now, 'trireme_network_address_info', { device }).map((s) => s.labels.address);
  const speed = sum(now, 'trireme_network_speed_bytes', { device }) * 8;
  const up = sum(now, 'trireme_network_up', { device }) === 1;
  say(card.link, up ? (speed > 0 ? 'up, ' + bits(speed) : 'up') : 'no carrier');
  card.link.className = 'pill ' + (up ? 'good' : 'bad');
  say(card.about, [info.driver + (info.chip ? ` (${info.chip})` : ''), info.mac,
    'MTU ' + sum(now, 'trireme_network_mtu_bytes', { device }), ...addresses].join(' · '));
  const points = history.get(device);
  const rate = (family, labels) => Math.max(0, sum(now, family, labels) - sum(before, family, labels)) / dt;
  if (before && dt > 0) {
    points.push({
      t, dt,
      in: 8 * rate('trireme_network_receive_bytes_total', { device }),
      out: 8 * rate('trireme_network_transmit_bytes_total', { device }),
      shares: SHARES.map(([, family]) => ['card', 'software'].map((by) => rate(family, { device, by }))),
    });
    while (points[0].t < t - SPAN - 2) points.shift();
  }
  const latest = points.at(-1);
  for (const [key, direction] of [['in', 'receive'], ['out', 'transmit']]) {
    const all = sum(now, `trireme_network_${direction}_bytes_total`, { device });
    const frames = before && dt > 0 ? rate(`trireme_network_${direction}_frames_total`, { device }) : 0;
    say(card[key], bits(latest ? latest[key] : 0), exact(all) + ' bytes');
    say(card[key + 'Detail'], `${perSecond(frames).replace('/s', ' frames/s')} · ${bytes(all)} in all`);
  }
  drawThroughput(card, points, t);
  card.shares.forEach((share, n) => {
    const [hw, sw] = latest ? latest.shares[n] : [0, 0];
    const total = (by) => sum(now, SHARES[n][1], { device, by });
    say(share.of, hw + sw > 0 ? Math.round((100 * hw) / (hw + sw)) + '\u00a0% card' : 'idle');
    say(share.hw, 'card ' + perSecond(hw), exact(total('card')));
    say(share.sw, 'software ' + perSecond(sw), exact(total('software')));
    drawShare(share, points, n, t);
  });
  drawFeatures(card, device, now);
  drawLosses(card, device, now);
}

function drawFeatures(card, device, now) {
  for (const { labels: { feature }, value } of pick(now, 'trireme_network_feature_enabled', { device })) {
    const on = value === 1, fixed = sum(now, 'trireme_network_feature_fixed', { device, feature }) === 1;
    let state = card.rows[feature];
    if (!state) {
      if (fixed && !on) {
        // What the card does not have is no news to anyone after the first look.
        state = make('span', {}, feature);
        card.absent.append(card.absent.firstChild ? ', ' : 'Not on this card: ', state);
      } else {
        state = make('td');
        card.features.append(make('tr', {}, make('td', {}, feature, make('small', {}, FEATURES[feature] || '')), state));
      }
      card.rows[feature] = state;
    }
    const shown = (on ? 'on' : 'off') + (fixed ? ' fixed' : '');
    if (state.dataset.state === shown && state.dataset.token === String(token !== '')) continue;
    Object.assign(state.dataset, { feature, state: shown, token: token !== '' });
    if (state.tagName !== 'TD') continue;
    if (token && !fixed) {
      const button = make('button', { role: 'switch', 'aria-checked': String(on), 'aria-label': feature });
      button.onclick = () => order(button, device, feature, !on);
      state.replaceChildren(button);
    } else {
      const word = make('span', { class: on ? 'on' : 'off' }, on ? 'on' : 'off');
      state.replaceChildren(word, ...(fixed ? [make('span', { class: 'fixed' }, ' fixed')] : []));
    }
  }
}

function drawLosses(card, device, now) {
  const rows = [];
  for (const [direction, text] of [['receive', 'received'], ['transmit', 'sent']]) {
    for (const { labels, value } of pick(now, `trireme_network_${direction}_drops_total`, { device })) {
      if (value > 0) rows.push([`${text}: ${labels.cause.replaceAll('_', ' ')}`, value]);
    }
  }
  const shown = rows.join() || 'none';
  if (card.lossesShown === shown) return;
  card.lossesShown = shown;
  const none = make('tr', {}, make('td', {}, 'No frame was dropped'), make('td', {}, '0'));
  card.losses.replaceChildren(...(rows.length ? rows.map(([what, n]) => make('tr', {}, make('td', {}, what), make('td', {}, exact(n)))) : [none]));
}

async function order(button, device, feature, on) {
  button.disabled = true;
  let text = '';
  try {
    const url = ['feature', device, feature, on ? 'on' : 'off'].map(encodeURIComponent).join('/');
    const answer = await fetch(url, { method: 'POST', headers: { Authorization: 'Bearer ' + token }, cache: 'no-store' });
    if (!answer.ok) text = (await answer.text()).trim();
    if (answer.status === 401 || answer.status === 403) token = '';
  } catch {
    text = 'No answer: ' + feature + ' may or may not have been switched.';
  }
  byId('message').hidden = text === '';
  say(byId('message'), text);
  // Drawn anew even if nothing changed: the button is off until then.
  for (const state of Object.values(cards.get(device).rows)) state.dataset.token = '';
  poll();
}

byId('unlock').querySelector('form').onsubmit = (event) => {
  event.preventDefault();
  token = byId('token').value.trim();
  byId('token').value = '';
  byId('message').hidden = true;
  poll();
};

function draw(now) {
  const build = pick(now, 'trireme_build_info')[0]?.labels;
  if (!build) throw new Error('no metrics');
  const t = now.has('trireme_uptime_seconds') ? sum(now, 'trireme_uptime_seconds') : performance.now() / 1000;
  if (last && t < last.t) {
    // It was booted anew: nothing of before can be compared.
    last = null;
    history.forEach((points) => { points.length = 0; });
  }
  const before = last && last.sample, dt = last ? t - last.t : 0;
  say(byId('host'), location.hostname);
  document.title = location.hostname + ' · status';
  say(byId('about'), `Trireme ${build.version} · ${build.arch}` + (build.system === 'appliance' ? ' · up ' + duration(t)
    : ` · a program on ${build.system}: cards, memory and processor are not its own`));
  for (const { labels: { device } } of pick(now, 'trireme_network_info')) drawCard(device, now, before, t, dt);
  machine(now, before, dt);
  const can = sum(now, 'trireme_status_switching_enabled') === 1;
  byId('unlock').hidden = !can || token !== '' || cards.size === 0;
  byId('locked').hidden = can || cards.size === 0;
  last = { sample: now, t };
}

let polling = false;
async function poll() {
  if (polling) return;
  polling = true;
  clearTimeout(timer);
  const start = performance.now();
  if (!document.hidden) {
    const live = byId('live');
    try {
      const answer = await fetch('metrics', { cache: 'no-store', signal: AbortSignal.timeout(5000) });
      if (!answer.ok) throw new Error(answer.status);
      draw(parse(await answer.text()));
      live.className = 'good';
      say(live, 'live');
    } catch (error) {
      live.className = 'bad';
      say(live, 'no answer');
    }
  }
  polling = false;
  timer = setTimeout(poll, Math.max(200, 1000 - (performance.now() - start)));
}
document.addEventListener('visibilitychange', poll);
poll();
