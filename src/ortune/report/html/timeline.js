"use strict";
// Executions over time. Each track is sorted by start and free of overlaps, so that what is visible is found by
// binary search; what is narrower than a pixel is gathered by pixel column. Names become text and never markup.
(() => {
  const byId = (id) => document.getElementById(id);
  const view = byId("timeline-view");
  if (!view) return;

  const column = (id) => {
    const text = atob(byId(id).textContent.trim());
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return new Uint32Array(bytes.buffer);
  };
  const { tick, names, ops, tracks: rows } = JSON.parse(byId("timeline-info").textContent);
  const start = column("timeline-start");
  const duration = column("timeline-duration");
  const code = column("timeline-codes");

  const LANE = 15, TRACK = 18, BAR = 15, AXIS = 20, HUES = 8, OTHER = HUES, DIM = HUES + 1;
  const tracks = [], laneOf = new Uint8Array(code.length);
  let height = AXIS, total = 1, lane = -1;
  for (const [title, depth, first, count] of rows) {
    if (depth === 0) { height += LANE; lane += 1; }
    laneOf.fill(lane, first, first + count);
    tracks.push({ lane: depth === 0 ? title : "", first, end: first + count, y: height });
    height += TRACK;
    for (let i = Math.max(first, first + count - 2); i < first + count; i++) total = Math.max(total, start[i] + duration[i]);
  }
  height += 4;

  // The operators with the most time have hues of their own, in a fixed order.
  const hueOf = new Uint8Array(names.length).fill(OTHER);
  const calls = new Uint32Array(names.length);
  const times = new Float64Array(names.length);
  for (let i = 0; i < code.length; i++) {
    calls[code[i]] += 1;
    times[code[i]] += duration[i];
  }
  const perOp = new Map();
  names.forEach((_, n) => { if (ops[n]) perOp.set(ops[n], (perOp.get(ops[n]) || 0) + times[n]); });
  const ranked = [...perOp].sort((a, b) => b[1] - a[1]).slice(0, HUES).map(([op]) => op);
  names.forEach((_, n) => { const hue = ranked.indexOf(ops[n]); if (ops[n] && hue >= 0) hueOf[n] = hue; });

  const canvas = byId("timeline-canvas");
  const g = canvas.getContext("2d");
  const tip = byId("timeline-tip");
  let from = 0, to = total, width = 0, asked = 0, found = null, ink = "", paper = "", minor = "", grid = "";
  const hues = [];

  const colours = () => {
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue(name).trim();
    [ink, paper, minor, grid] = ["--ink", "--paper", "--minor", "--grid"].map(value);
    for (let i = 0; i < HUES; i++) hues[i] = value(`--t${i}`);
    hues[OTHER] = value("--t-other");
    hues[DIM] = value("--t-dim");
  };

  const three = (number) => number.toFixed(number < 10 ? 2 : number < 100 ? 1 : 0);
  const time = (ticks) => {
    const ns = ticks * tick;
    for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]]) if (Math.abs(ns) >= size) return `${three(ns / size)} ${unit}`;
    return `${Math.round(ns)} ns`;
  };

  // Times along the axis: as many digits as tell two neighbours apart.
  const mark = (ticks, step) => {
    const largest = Math.max(Math.abs(from), Math.abs(to)) * tick;
    const [unit, size] = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]].find(([, one]) => largest >= one) || ["ns", 1];
    const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10((step * tick) / size) - 1e-9)));
    return `${((ticks * tick) / size).toFixed(digits)} ${unit}`;
  };

  // The first row of a track that starts after a time.
  const after = (track, when) => {
    let low = track.first, high = track.end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (start[middle] <= when) low = middle + 1; else high = middle;
    }
    return low;
  };

  const fit = (text, pixels) => {
    const most = Math.floor((pixels - 6) / 6.2);
    if (text.length <= most) return text;
    if (most < 4) return "";
    const tail = Math.floor(((most - 1) * 2) / 3);
    return `${text.slice(0, most - 1 - tail)}\u2026${text.slice(text.length - tail)}`;
  };

  let fill = -1;
  const paint = (x, y, w, hue, busy) => {
    if (hue !== fill) { g.fillStyle = hues[hue]; fill = hue; }
    g.globalAlpha = busy;
    g.fillRect(x, y, w, BAR);
  };
  const hueNow = (n) => (found && !found[n] ? DIM : hueOf[n]);

  const drawTrack = (track, scale, labels) => {
    const y = track.y;
    let pixel = -1, rank = -1, best = 0, busy = 0;
    const flush = () => {
      if (pixel >= 0) paint(pixel, y, 1, hueNow(best), 0.3 + 0.7 * Math.min(1, busy));
      pixel = -1;
    };
    for (let i = Math.max(track.first, after(track, from) - 2); i < track.end; i++) {
      if (start[i] >= to) break;
      const x = (start[i] - from) * scale, w = duration[i] * scale, n = code[i];
      if (x + w < 0) continue;
      if (w >= 2) {
        flush();
        const left = Math.max(x, 0), right = Math.min(x + w, width);
        paint(left, y, Math.max(1, right - left - 0.5), hueNow(n), 1);
        if (right - left > 34) labels.push([left, y, right - left, n]);
        continue;
      }
      const at = Math.max(0, Math.floor(x));
      if (at !== pixel) { flush(); pixel = at; rank = -1; busy = 0; }
      busy += w;
      // Of what shares a pixel the longest shows, and before it what is searched for.
      const mine = duration[i] + (found && found[n] ? 1e15 : 0);
      if (mine > rank) { rank = mine; best = n; }
    }
    flush();
  };

  const drawAxis = (scale) => {
    const rough = (100 / scale) * tick, power = 10 ** Math.floor(Math.log10(rough));
    const step = ([1, 2, 5, 10].find((n) => n * power >= rough) * power) / tick;
    g.font = "11px system-ui, sans-serif";
    for (let t = Math.ceil(from / step) * step; t < to; t += step) {
      const x = Math.round((t - from) * scale) + 0.5;
      g.fillStyle = grid;
      g.fillRect(x, AXIS - 4, 1, height);
      g.fillStyle = minor;
      g.fillText(mark(t, step), x + 3, AXIS - 7);
    }
  };

  const draw = () => {
    asked = 0;
    width = canvas.clientWidth;
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.globalAlpha = 1;
    g.clearRect(0, 0, width, height);
    const scale = width / (to - from), labels = [];
    drawAxis(scale);
    fill = -1;
    for (const track of tracks) drawTrack(track, scale, labels);
    g.globalAlpha = 1;
    g.fillStyle = minor;
    for (const track of tracks) if (track.lane) g.fillText(track.lane, 4, track.y - 4);
    g.font = "11px ui-monospace, Menlo, Consolas, monospace";
    for (const [x, y, pixels, n] of labels) {
      const text = fit(names[n], pixels);
      g.fillStyle = found && !found[n] ? minor : paper;
      if (text) g.fillText(text, x + 3, y + 11);
    }
  };
  const ask = () => { if (!asked) asked = requestAnimationFrame(draw); };

  const show = (a, b) => {
    const least = Math.min(20, total), span = Math.min(total * 1.02, Math.max(least, b - a));
    const middle = (a + b) / 2, edge = total * 0.01;
    from = Math.min(Math.max(middle - span / 2, -edge), total + edge - span);
    to = from + span;
    ask();
  };
  const zoom = (factor, x) => {
    const at = from + ((to - from) * x) / width;
    show(at - (at - from) * factor, at + (to - at) * factor);
  };
  const move = (pixels) => {
    const ticks = ((to - from) * pixels) / width;
    show(from + ticks, to + ticks);
  };

  const hit = (x, y) => {
    const track = tracks.find((one) => y >= one.y - 1 && y < one.y + TRACK);
    if (!track) return -1;
    const scale = width / (to - from), when = from + x / scale;
    const near = after(track, when + 2 / scale) - 1;
    for (let i = near; i >= Math.max(track.first, near - 2); i--) {
      if (start[i] + duration[i] >= when - 2 / scale) return i;
    }
    return -1;
  };
  const hint = (x, y) => {
    const i = hit(x, y);
    tip.hidden = i < 0;
    if (i < 0) return;
    const n = code[i], name = document.createElement("b");
    name.textContent = names[n];
    const what = document.createElement("span");
    const all = calls[n] > 1 ? `; ${calls[n]} of it, ${time(times[n])} in all` : "";
    what.textContent = `${ops[n] ? `${ops[n]}, ` : ""}${time(duration[i])}, starts at ${time(start[i])}${all}`;
    tip.replaceChildren(name, what);
    const room = canvas.clientWidth - tip.offsetWidth - 4;
    tip.style.transform = `translate(${Math.max(0, Math.min(x + 12, room))}px, ${y + 16}px)`;
  };

  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX * unit);
    else zoom(Math.exp(Math.max(-240, Math.min(240, event.deltaY * unit)) * 0.003), place(event)[0]);
    tip.hidden = true;
  }, { passive: false });

  // One pointer drags, two pinch.
  const down = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    down.set(event.pointerId, place(event));
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("held-down");
    tip.hidden = true;
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = place(event), before = down.get(event.pointerId);
    if (!before) { hint(...now); return; }
    const other = [...down].find(([id]) => id !== event.pointerId);
    if (other) {
      const x = other[1][0], was = Math.max(10, Math.abs(before[0] - x));
      zoom(was / Math.max(10, Math.abs(now[0] - x)), x);
    } else move(before[0] - now[0]);
    down.set(event.pointerId, now);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => { down.delete(event.pointerId); if (!down.size) canvas.classList.remove("held-down"); });
  }
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  const zoomTo = (i) => show(start[i] - duration[i] - 5, start[i] + 2 * duration[i] + 5);
  canvas.addEventListener("dblclick", (event) => {
    const i = hit(...place(event));
    if (i >= 0) zoomTo(i); else show(0, total);
  });

  // Search: what does not match fades; next and back go from match to match in order of time.
  const input = byId("timeline-find"), says = byId("timeline-found");
  let matches = [], current = -1;
  const search = () => {
    const text = input.value.toLowerCase();
    found = text ? Uint8Array.from(names, (name, n) => Number(name.toLowerCase().includes(text) || ops[n].toLowerCase() === text)) : null;
    matches = [];
    let ticks = 0;
    if (found) {
      for (let i = 0; i < code.length; i++) if (found[code[i]]) matches.push(i);
      matches.sort((a, b) => start[a] - start[b]);
      // What lies in something else that matches is not counted twice.
      const until = new Float64Array(256);
      for (const i of matches) {
        const end = start[i] + duration[i], lane = laneOf[i];
        ticks += Math.max(0, end - Math.max(start[i], until[lane]));
        until[lane] = Math.max(until[lane], end);
      }
    }
    current = -1;
    says.textContent = found ? `${matches.length} executions, ${time(ticks)}` : "";
    ask();
  };
  const step = (by) => {
    if (!matches.length) return;
    current = (current + by + matches.length + (current < 0 && by < 0 ? 1 : 0)) % matches.length;
    const i = matches[current], half = Math.max((to - from) / 2, duration[i]);
    show(start[i] + duration[i] / 2 - half, start[i] + duration[i] / 2 + half);
    says.textContent = `${current + 1} of ${matches.length}: ${time(duration[i])}`;
  };
  input.addEventListener("input", search);
  input.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); step(event.shiftKey ? -1 : 1); } });

  const acts = {
    in: () => zoom(0.5, width / 2), out: () => zoom(2, width / 2), all: () => show(0, total), back: () => step(-1), next: () => step(1),
  };
  view.addEventListener("click", (event) => { const act = acts[event.target.dataset.do]; if (act) act(); });
  const keys = {
    "+": acts.in, "=": acts.in, "-": acts.out, Home: acts.all, ArrowLeft: () => move(-width / 8), ArrowRight: () => move(width / 8),
  };
  canvas.addEventListener("keydown", (event) => { const act = keys[event.key]; if (act) { event.preventDefault(); act(); } });

  const legend = byId("timeline-legend");
  [...ranked, ...(perOp.size > HUES ? ["other operators"] : [])].forEach((op, hue) => {
    const item = document.createElement("li"), swatch = document.createElement("i");
    swatch.className = "swatch";
    swatch.style.setProperty("--hue", `var(--t${hue < HUES ? hue : "-other"})`);
    item.append(swatch, op);
    legend.append(item);
  });

  view.hidden = false;
  canvas.style.height = `${height}px`;
  colours();
  for (const media of ["(prefers-color-scheme: dark)", "print"]) {
    matchMedia(media).addEventListener("change", () => { colours(); draw(); });
  }
  new ResizeObserver(ask).observe(canvas);
  draw();
})();
