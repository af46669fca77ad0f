// A worker in JavaScript: runs one trial, controlled by JSON lines on stdin, and sleeps between its turns.
// Started as: node --expose-gc runner.mjs FOLDER, whose node_modules has onnxruntime-node.

import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import process from "node:process";
import readline from "node:readline";
import { fileURLToPath } from "node:url";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

const VERSION = 2; // of the protocol
const DELAY_MS = 1; // resolution of the event loop's delay
const CHUNKS = 4; // timed runs of several cases are interleaved in this many rounds

class Stop extends Error {
  constructor(reason, what, knob = "") { super(what); this.reason = reason; this.knob = knob; }
}

const clock = () => performance.now();
const ns = (ms) => Math.round(ms * 1e6);
const rest = (ms) => new Promise((done) => setTimeout(done, ms));
const text = (file) => { try { return fs.readFileSync(file, "utf8"); } catch { return ""; } };
const plain = (value) => (typeof value === "boolean" ? String(Number(value)) : String(value));

// --- settings: each is passed to onnxruntime-node through its channel, under a name derived from its key

const WORDS = { ORT_DISABLE_ALL: "disabled", ORT_SEQUENTIAL: "sequential", ORT_PARALLEL: "parallel" };
const OPTIONS = ["intraOpNumThreads", "interOpNumThreads", "executionMode", "graphOptimizationLevel", "enableCpuMemArena", "enableMemPattern"];
const camel = (key) => key.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
const word = (value) => WORDS[value] ?? String(value).replace("ORT_ENABLE_", "").toLowerCase();

/** Returns the options of InferenceSession.create for the settings of a plan, as in load.mjs of a bundle. */
export const sessionOptions = (applied) => {
  const options = { executionProviders: ["cpu"] };
  for (const { channel, key, value, knob } of applied) {
    if (channel === "session_option") {
      const name = camel(key);
      if (!OPTIONS.includes(name)) throw new Stop("unsupported", `onnxruntime-node has no session option for ${key}`, knob);
      options[name] = typeof value === "string" ? word(value) : value;
    } else if (channel === "session_config") {
      const [group, ...rest] = key.split(".");
      ((options.extra ??= {})[group] ??= {})[rest.join(".")] = plain(value);
    } else if (channel === "call_style") {
      if (!["run", "main", "worker"].includes(value)) throw new Stop("unsupported", `onnxruntime-node cannot call a session by ${value}`, knob);
    } else if (channel !== "env" && channel !== "preload") {
      throw new Stop("unsupported", `channel ${channel} does not apply to Node.js`, knob);
    }
  }
  return options;
};

// --- values: folders of .npy files with an index

const TYPES = {
  float: ["float32", "<f4", Float32Array], double: ["float64", "<f8", Float64Array], int8: ["int8", "|i1", Int8Array],
  uint8: ["uint8", "|u1", Uint8Array], int16: ["int16", "<i2", Int16Array], uint16: ["uint16", "<u2", Uint16Array],
  int32: ["int32", "<i4", Int32Array], uint32: ["uint32", "<u4", Uint32Array], int64: ["int64", "<i8", BigInt64Array],
  uint64: ["uint64", "<u8", BigUint64Array], bool: ["bool", "|b1", Uint8Array],
  float16: ["float16", "<f2", globalThis.Float16Array ?? Uint16Array],
};
const BY_NAME = Object.fromEntries(Object.entries(TYPES).map(([onnx, [name, dtype]]) => [name, { onnx, dtype }]));
const POINT = 4; // bytes of a character in a .npy file

const readNpy = (file) => {
  const data = fs.readFileSync(file);
  const wide = data[6] > 1, start = wide ? 12 : 10, end = start + (wide ? data.readUInt32LE(8) : data.readUInt16LE(8));
  const header = data.toString("latin1", start, end);
  if (/'fortran_order': True/.test(header)) throw new Stop("unsupported", `${path.basename(file)} is in column order`);
  const dims = header.match(/'shape': \(([^)]*)\)/)[1].split(",").filter((size) => size.trim()).map(Number);
  return { dtype: header.match(/'descr': '([^']+)'/)[1], dims, data: data.subarray(end) };
};

const readFeeds = (folder) => JSON.parse(fs.readFileSync(path.join(folder, "feeds.json"), "utf8")).feeds.map(({ name, kind, onnx_type, files }) => {
  const known = TYPES[onnx_type] ?? (onnx_type === "string" && ["string"]);
  if (kind !== "tensor" || !known) throw new Stop("unsupported", `onnxruntime-node takes no input of kind ${kind} of ${onnx_type}: ${name}`);
  const { dtype, dims, data } = readNpy(path.join(folder, files[0]));
  if (onnx_type !== "string") return { name, type: known[0], dims, data: new known[2](new Uint8Array(data).buffer) };
  const width = Number(dtype.slice(2)), count = dims.reduce((a, b) => a * b, 1);
  const letters = (i) => Array.from({ length: width }, (_, j) => data.readUInt32LE(POINT * (i * width + j))).filter((point) => point);
  return { name, type: "string", dims, data: Array.from({ length: count }, (_, i) => String.fromCodePoint(...letters(i))) };
});

const writeNpy = (file, dtype, dims, bytes) => {
  const shape = `(${dims.join(", ")}${dims.length === 1 ? "," : ""})`;
  const header = `{'descr': '${dtype}', 'fortran_order': False, 'shape': ${shape}, }`;
  const size = Math.ceil((10 + header.length + 1) / 64) * 64 - 10;
  const head = Buffer.from(`\x93NUMPY\x01\x00  ${header.padEnd(size - 1)}\n`, "latin1");
  head.writeUInt16LE(size, 8);
  fs.writeFileSync(file, Buffer.concat([head, bytes]));
};

const writeOutputs = (folder, outputs) => {
  fs.mkdirSync(folder, { recursive: true });
  const index = outputs.map(({ name, type, dims, data }, i) => {
    const file = `${i}.npy`;
    if (type !== "string") writeNpy(path.join(folder, file), BY_NAME[type].dtype, dims, Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    else {
      const points = data.map((one) => [...one].map((letter) => letter.codePointAt(0)));
      const width = Math.max(1, ...points.map((one) => one.length)), bytes = Buffer.alloc(POINT * width * points.length);
      points.forEach((one, row) => one.forEach((point, i) => bytes.writeUInt32LE(point, POINT * (row * width + i))));
      writeNpy(path.join(folder, file), `<U${width}`, dims, bytes);
    }
    return { name, onnx_type: type === "string" ? type : BY_NAME[type].onnx, files: [file], kind: "tensor" };
  });
  fs.writeFileSync(path.join(folder, "outputs.json"), JSON.stringify({ version: 1, outputs: index }));
};

// --- a session, in this thread or in a worker thread

const tasks = () => { try { return fs.readdirSync("/proc/self/task"); } catch { return []; } };

const packaged = (folder) => createRequire(path.join(folder, "ortune.js"))("onnxruntime-node");
// Creates ONNX Runtime's environment, which is created with the first session and has its own thread.
const createEnvironment = async (ort) => { try { await ort.InferenceSession.create(new Uint8Array(1)); } catch { /* not a model */ } };
const tensorsOf = (ort, feeds) => Object.fromEntries(feeds.map(({ name, type, data, dims }) => [name, new ort.Tensor(type, data, dims)]));
const outputsOf = (session, found) => session.outputNames.map((name) => ({ name, type: found[name].type, dims: [...found[name].dims], data: found[name].data }));

const opened = async (folder, model, options) => {
  const ort = packaged(folder);
  await createEnvironment(ort);
  const before = tasks().length, began = clock();
  const session = await ort.InferenceSession.create(model, options);
  return {
    loadMs: clock() - began,
    added: before ? tasks().length - before : null,
    tensors: (feeds) => tensorsOf(ort, feeds),
    run: (tensors) => session.run(tensors),
    outputs: (found) => outputsOf(session, found),
    profile: () => session.endProfiling(),
    release: () => session.release(),
  };
};

if (!isMainThread) {
  const session = await opened(...workerData);
  parentPort.on("message", async ({ id, do: asked, feeds }) => {
    try {
      if (asked === "run") parentPort.postMessage({ id, outputs: session.outputs(await session.run(session.tensors(feeds))) });
      else { await session[asked](); parentPort.postMessage({ id }); }
    } catch (error) { parentPort.postMessage({ id, error: String(error?.message ?? error) }); }
  });
  parentPort.postMessage({ loaded: { loadMs: session.loadMs, added: session.added } });
}

const inThread = async (...args) => {
  const worker = new Worker(fileURLToPath(import.meta.url), { workerData: args });
  const waiting = new Map();
  let sent = 0;
  const loaded = await new Promise((done, fail) => {
    worker.once("error", fail);
    worker.once("message", (message) => done(message.loaded));
  });
  worker.on("message", ({ id, error, outputs }) => {
    const { done, fail } = waiting.get(id);
    waiting.delete(id);
    if (error === undefined) done(outputs); else fail(new Error(error));
  });
  const ask = (asked, feeds) => new Promise((done, fail) => {
    waiting.set(++sent, { done, fail });
    worker.postMessage({ id: sent, do: asked, feeds });
  });
  return {
    ...loaded, tensors: (feeds) => feeds, run: (feeds) => ask("run", feeds), outputs: (found) => found,
    profile: () => ask("profile"), release: async () => { await ask("release"); await worker.terminate(); },
  };
};

// --- figures of this process from the system

const status = (field) => {
  const found = text("/proc/self/status").match(new RegExp(`^${field}:\\s+(\\d+)`, "m"));
  return found ? Number(found[1]) * 1024 : null;
};
const cpuNs = () => { const { user, system } = process.cpuUsage(); return (user + system) * 1000; };
const switches = () => (process.platform === "win32" ? null : process.resourceUsage().involuntaryContextSwitches);
const waits = () => {
  const all = tasks().map((task) => [task, text(`/proc/self/task/${task}/schedstat`).split(" ")[1]]);
  return all.length && all.every(([, waited]) => waited) ? new Map(all.map(([task, waited]) => [task, Number(waited)])) : null;
};
const waitedSince = (before) => {
  const now = before && waits();
  if (!now) return null;
  let total = 0;
  for (const [task, waited] of before) total += Math.max(0, (now.get(task) ?? waited) - waited);
  return total;
};

// --- timing

const median = (values) => [...values].sort((a, b) => a - b)[(values.length - 1) >> 1];
const agree = (before, after) => {
  const [a, b] = [median(before), median(after)];
  const spread = median([...before.map((x) => Math.abs(x - a)), ...after.map((x) => Math.abs(x - b))]);
  const allowed = Math.max((before.length > 1 ? 0.02 : 0.05) * Math.min(a, b), 3 * 1.4826 * spread * Math.sqrt(2 / before.length));
  return Math.abs(a - b) <= allowed;
};

const timed = async (one, n, request, waited = []) => {
  const taken = [];
  for (let i = 0; i < n; i++) {
    const start = clock();
    await one.call();
    let end = clock();
    if (request.wait_ratio) {
      const ran = end, until = end + (end - start) * request.wait_ratio;
      while (end < until) end = clock();
      waited.push(ns(end - ran));
    }
    taken.push(end - start);
    if (request.gap_ns) await rest(request.gap_ns / 1e6);
  }
  return taken;
};

/** Runs until two consecutive windows agree, as the worker in Python does. */
const warmUp = async (one, request) => {
  const began = clock(), least = request.warmup_ns / 1e6, most = request.warmup_cap_ns / 1e6;
  const taken = await timed(one, Math.max(1, request.warmup_runs), request);
  while (clock() - began < least) taken.push(...(await timed(one, 1, request)));
  one.warmup = taken.length;
  if (!most) return;
  const typical = median(taken) + request.gap_ns / 1e6;
  const window = typical < 200 ? Math.max(3, Math.min(64, Math.floor(5 / typical))) : 1;
  let before = await timed(one, window, request);
  one.warmup += window;
  one.steady = false;
  while (clock() - began < most && !one.steady) {
    const after = await timed(one, window, request);
    one.warmup += window;
    one.steady = agree(before, after);
    before = after;
  }
};

// --- the delay of the event loop: one histogram per turn, since a continuous one would include the time asleep

const MOST_LEVELS = 1000;
const samplesOf = (delay) => {
  const levels = Math.min(delay.count, MOST_LEVELS);
  return Array.from({ length: levels }, (_, i) => [delay.percentile((100 * (i + 1)) / levels), delay.count / levels]);
};
const delayOf = (samples) => {
  const ordered = [...samples].sort(([a], [b]) => a - b), total = ordered.reduce((sum, [, weight]) => sum + weight, 0);
  const at = (share) => {
    let passed = 0;
    return Math.round((ordered.find(([, weight]) => (passed += weight) >= share * total - 1e-9) ?? ordered.at(-1))[0]);
  };
  return ordered.length ? { p50_ns: at(0.5), p99_ns: at(0.99), max_ns: at(1), n_samples: Math.round(total) } : null;
};

// --- messages from and to ortune

const send = (message, fields = {}) => fs.writeSync(1, `${JSON.stringify({ ...fields, message })}\n`);
let phase = "starting";

const listen = () => {
  const lines = [], waiting = [];
  const input = readline.createInterface({ input: process.stdin });
  input.on("line", (line) => { const next = waiting.shift(); if (next) next(JSON.parse(line)); else lines.push(JSON.parse(line)); });
  input.on("close", () => process.exit(3)); // ortune has ended
  return () => new Promise((done) => { if (lines.length) done(lines.shift()); else waiting.push(done); });
};

const requireKnownKeys = (folder, applied, version) => {
  const wanted = applied.filter(({ channel }) => channel === "session_config");
  if (!wanted.length) return;
  const binaries = path.join(path.dirname(createRequire(path.join(folder, "ortune.js")).resolve("onnxruntime-node/package.json")), "bin");
  const files = fs.readdirSync(binaries, { recursive: true }).filter((file) => /onnxruntime[^/\\]*\.(so|dll|dylib)/.test(file));
  const libraries = files.map((file) => fs.readFileSync(path.join(binaries, file)));
  for (const { key, knob } of wanted) {
    if (!libraries.some((library) => library.lastIndexOf(key) >= 0)) throw new Stop("unknown-key", `onnxruntime-node ${version} does not know the key '${key}'`, knob);
  }
};

const readBack = (applied, options, added, idle) => applied.map(({ knob, channel, key, value, probe }) => {
  const seen = (level, ok, what) => ({ knob, level, ok, seen: what });
  const parallel = options.executionMode === "parallel", inter = parallel ? options.interOpNumThreads : 1;
  if (probe === "threads" && added !== null && options.intraOpNumThreads && inter && (parallel || key !== "inter_op_num_threads")) {
    return seen("effect", added === options.intraOpNumThreads - 1 + inter - 1, `${added} threads added`);
  }
  if (probe === "idle" && plain(value) === "0" && idle !== null && idle < 0.1) return seen("effect", true, `idle CPU ${idle.toFixed(2)}`);
  if (channel === "env") return seen("echo", process.env[key] === plain(value), process.env[key] ?? "");
  if (channel === "preload" && text("/proc/self/maps")) {
    const mapped = text("/proc/self/maps").includes(fs.realpathSync(String(value)));
    return seen("effect", mapped, mapped ? String(value) : "not mapped");
  }
  if (channel === "call_style") return seen("effect", true, String(value));
  return seen("none", true, ""); // onnxruntime-node returns no option
});

const reasonOf = (error) => {
  const what = String(error?.message ?? error);
  if (error instanceof Stop) return error.reason;
  if (error?.code === "ENOSPC") return "disk-full";
  if (/failed to allocate|bad alloc|out of memory|cannot allocate memory|array buffer allocation/i.test(what)) return "out-of-memory";
  if (phase === "loading" || phase === "importing") return "load-error";
  return /invalid dimensions|unexpected input data type|got invalid|input '[^']*' is missing/i.test(what) ? "input-error" : "run-error";
};

const begin = async (next) => {
  const request = await next();
  if (request.version !== VERSION) throw new Stop("protocol", `ortune speaks version ${request.version}, this worker ${VERSION}`);
  phase = "importing";
  const ort = packaged(process.argv[2]);
  return { request, ort, version: ort.env.versions.node };
};

const trial = async () => {
  const next = listen(), folder = process.argv[2], { request, version } = await begin(next);
  const { applied } = request;
  const lacking = [
    ["several sessions or callers", request.sessions > 1 || request.callers > 1], ["calls at given times", request.arrivals],
    ["operator libraries", request.custom_ops.length],
  ].find(([, asked]) => asked);
  if (lacking) throw new Stop("unsupported", `${lacking[0]} are not supported in Node.js`);
  const options = sessionOptions(applied);
  requireKnownKeys(folder, applied, version);
  phase = "loading";
  send("ready", { version: VERSION, pid: process.pid, ort_version: version });
  const all = { ...options };
  if (request.profile_path) Object.assign(all, { enableProfiling: true, profileFilePrefix: request.profile_path });
  const base = status("VmRSS");
  const threaded = applied.some(({ channel, value }) => channel === "call_style" && value === "worker");
  let session = await (threaded ? inThread : opened)(folder, request.model, all);
  phase = "running";
  send("loaded", { load_ns: ns(session.loadMs) });

  const cases = [], turnWaits = [], delays = [];
  let cpu = 0, wall = 0, runs = 0, idle = null, switched = switches() === null ? null : 0, waitsKnown = true;

  const warm = async () => {
    for (const feed of request.feeds) {
      const tensors = session.tensors(readFeeds(feed.path));
      const one = { name: feed.name, weight: feed.weight, call: () => session.run(tensors), latencies: [], waits: [], turns: [], warmup: 0, steady: true };
      cases.push(one);
      const start = clock(), found = await one.call();
      one.first = ns(clock() - start);
      const outputs = session.outputs(found);
      one.shapes = outputs.map(({ dims }) => dims);
      if (request.outputs_path) writeOutputs(path.join(request.outputs_path, feed.name), outputs);
    }
    if (!request.warmup_runs) return;
    for (const one of cases) await warmUp(one, request);
    const before = cpuNs(), began = clock();
    await rest(20);
    idle = (cpuNs() - before) / ns(clock() - began);
  };

  const share = request.feeds.reduce((sum, feed) => sum + feed.weight, 0);
  const due = (one, n) => {
    const mine = Math.round((n * one.weight * cases.length) / share);
    return n && cases.length > 1 ? Math.max(1, mine) : mine;
  };
  const turn = async (n, unmeasured) => {
    for (const one of cases) await timed(one, unmeasured, request);
    // Reads a file for each thread, which blocks the event loop, so it is outside of the histogram.
    const waitedBefore = waits();
    // The first sample is taken when the timer fires for the second time: without a pause, one long run would have none.
    const delay = monitorEventLoopDelay({ resolution: DELAY_MS });
    delay.enable();
    await rest(2 * DELAY_MS + 1);
    const taken = cases.map((one) => ({ one, times: [], waited: [] })), chunks = cases.length > 1 ? CHUNKS : 1;
    const switchedBefore = switches(), cpuBefore = cpuNs(), began = clock();
    for (let chunk = 0; chunk < chunks; chunk++) {
      for (const { one, times, waited } of taken) {
        const mine = due(one, n), part = Math.floor((mine * (chunk + 1)) / chunks) - Math.floor((mine * chunk) / chunks);
        times.push(...(await timed(one, part, request, waited)));
      }
    }
    wall += ns(clock() - began);
    cpu += cpuNs() - cpuBefore;
    if (switched !== null) switched += switches() - switchedBefore;
    await rest(2 * DELAY_MS);
    delay.disable();
    delays.push(...samplesOf(delay));
    const waited = waitedSince(waitedBefore);
    if (waited === null) waitsKnown = false; else turnWaits.push(waited);
    for (const { one, times, waited: within } of taken) {
      one.latencies.push(...times.map(ns));
      one.waits.push(...within);
      one.turns.push(times.length);
      runs += times.length;
    }
  };

  let waitingCpu = 0, waiting = 0;
  let command = await next();
  for (; command.do !== "finish"; ) {
    if (command.do === "warm") await warm();
    else if (command.do === "run") await turn(command.runs, command.unmeasured);
    else throw new Stop("protocol", `unknown command ${JSON.stringify(command.do)}`);
    const before = cpuNs(), began = clock();
    send("turn-over");
    command = await next();
    waitingCpu += cpuNs() - before;
    waiting += ns(clock() - began);
  }
  phase = "reporting";
  const level = ({ latencies, turns }) => turns.length < 2 || agree(latencies.slice(0, turns[0]), latencies.slice(-turns.at(-1)));
  let profile = "";
  if (request.profile_path) {
    await session.profile();
    const [place, stem] = [path.dirname(request.profile_path), path.basename(request.profile_path)];
    profile = fs.readdirSync(place).filter((file) => file.startsWith(stem)).map((file) => path.join(place, file))[0] ?? "";
  }
  const held = status("VmRSS"), anonymous = status("RssAnon"), { added } = session;
  const report = {
    load_ns: ns(session.loadMs), cpu_ns: cpu, wall_ns: wall, n_runs: runs, idle_cpu_ratio: idle, threads: added,
    cases: cases.map((one) => ({
      case: one.name, weight: one.weight, latency_ns: one.latencies, first_ns: one.first, warmup_runs: one.warmup,
      steady: one.steady && level(one), waits_ns: one.waits, output_shapes: one.shapes, turn_runs: one.turns,
    })),
    peak_bytes: status("VmHWM"), base_bytes: base, involuntary_switches: switched, turn_waits_ns: waitsKnown ? turnWaits : [],
    waiting_cpu_ns: waitingCpu, waiting_ns: waiting, providers: ["nodejs"], ort_version: version, profile,
    read_back: readBack(applied, options, added, idle),
    event_loop: delayOf(delays),
  };
  if (held !== null) {
    await session.release();
    session = null;
    cases.length = 0;
    globalThis.gc?.();
    report.kept = { idle_bytes: held, idle_anonymous_bytes: anonymous, released_bytes: status("VmRSS") };
  }
  send("done", report);
};

// --- a process of a recorded application: plays the steps of its JavaScript thread

const AHEAD_MS = 5; // from the command to the first step
const still = new Int32Array(new SharedArrayBuffer(4));
// Blocks without the event loop, whose timers have a resolution of 1 ms; no other work is due between two steps.
const sleep = (ms) => { if (ms > 0) Atomics.wait(still, 0, 0, ms); };
const threadCpuNs = () => { const { user, system } = process.threadCpuUsage?.() ?? { user: 0, system: 0 }; return (user + system) * 1000; };

const play = async () => {
  const next = listen(), folder = process.argv[2], { request, ort, version } = await begin(next);
  const { sessions: asked, steps } = request;
  if (new Set(steps.map(([thread]) => thread)).size > 1) throw new Stop("unsupported", "calls of several threads are not played in Node.js");
  const options = asked.map(({ applied }) => sessionOptions(applied));
  requireKnownKeys(folder, asked.flatMap(({ applied }) => applied), version);
  phase = "loading";
  send("ready", { version: VERSION, pid: process.pid, ort_version: version });
  await createEnvironment(ort);
  const feeds = request.feeds.map(({ path: place }) => (place ? tensorsOf(ort, readFeeds(place)) : null));
  const sessions = [], kept = new Map(), base = status("VmRSS");
  const create = async (number) => { sessions[number] = await ort.InferenceSession.create(asked[number].model, options[number]); };
  for (const [number, { before }] of asked.entries()) if (before) await create(number);
  // In an open loop they are called once with each of their inputs, since a first call takes longer.
  const pairs = new Set(request.open_loop ? steps.filter(([, does, number]) => does === "call" && sessions[number]).map(([, , number, feed]) => `${number} ${feed}`) : []);
  for (const [number, feed] of [...pairs].map((pair) => pair.split(" "))) await sessions[number].run(feeds[feed]);
  send("loaded", { load_ns: 0 });
  await next();
  phase = "running";
  const took = [], waited = [], late = [], ownBefore = threadCpuNs(), cpuBefore = cpuNs(), began = clock(), origin = began + AHEAD_MS;
  let inside = 0, free = origin, threads = tasks().length || null;
  for (const [, does, number, feed, at] of steps) {
    const due = (request.open_loop ? origin : free) + at / 1e6, ready = clock();
    sleep(due - ready);
    const cpu = threadCpuNs(), start = clock();
    if (does === "create") await create(number);
    else if (does === "close") await sessions[number].release();
    else {
      const found = await sessions[number].run(feeds[feed]);
      if (request.outputs_path && !kept.has(feed)) kept.set(feed, outputsOf(sessions[number], found));
    }
    free = clock();
    inside += threadCpuNs() - cpu;
    took.push(ns(free - start));
    waited.push(request.open_loop ? ns(Math.max(0, ready - due)) : 0);
    late.push(ns(Math.max(0, start - Math.max(due, ready))));
    if (does === "create" && tasks().length) threads = Math.max(threads ?? 0, tasks().length);
  }
  const wall = clock() - began, cpu = cpuNs() - cpuBefore, own = threadCpuNs() - ownBefore - inside;
  phase = "reporting";
  for (const [feed, outputs] of kept) writeOutputs(path.join(request.outputs_path, String(feed)), outputs);
  send("play-done", {
    took_ns: took, waited_ns: waited, late_ns: late, wall_ns: ns(wall), cpu_ns: cpu, own_cpu_ns: Math.max(0, own),
    peak_bytes: status("VmHWM"), base_bytes: base, most_threads: threads, ort_version: version,
  });
};

if (isMainThread && process.argv[1] && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  console.log = console.info = console.debug = console.error; // stdout is for messages
  try { await (process.argv[3] === "play" ? play : trial)(); } catch (error) {
    send("error", { reason: reasonOf(error), what: String(error?.message ?? error).slice(0, 2000), phase, knob: error.knob ?? "" });
  }
  process.exit(0); // without running destructors
}
