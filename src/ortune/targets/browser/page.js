// One trial: fetches the request, loads the model, runs batches when commanded, and reports. Exchanges the messages of the
// worker process through the server.
const here = new URL(".", import.meta.url).href;
// V8 recompiles hot WebAssembly in the background. Before that, all runs are equally slow, so stable times alone do not
// prove that the warm-up is over.
const FASTER = 0.8, FIRST = 5;
const SHORT_MS = 0.5; // a shorter run is mostly the JavaScript call itself
const COMPILED_MS = 300; // warm-up if V8 has already recompiled the code, and times are level
const LOOK_MS = 50; // interval between two checks of the times
const COMPILING_MS = 200; // interval in which V8's CPU time shows whether it still compiles

const PROFILED = 300; // limit of warm-up runs in a profile, since each is printed
const APART = { least: 5, most: 100, ms: 1500, most_ms: 10000 }; // runs of each kind when the parts of a run are measured
const CHUNKS = 4; // timed runs of several cases are interleaved in this many rounds, as in a process

const rest = (ms) => new Promise((done) => setTimeout(done, ms));

// A device with a locked screen temporarily loses its network, even in the middle of a body. A repeated request keeps its
// number, so nothing is sent or received twice.
const AWAY_MS = 60000;
const ask = async (path, kind, options = {}) => {
  const until = Date.now() + AWAY_MS;
  for (let pause = 50; ; pause = Math.min(2 * pause, 500)) {
    try {
      const answer = await fetch(here + path, options);
      return { status: answer.status, body: await answer[kind]() };
    } catch (error) {
      if (Date.now() > until) throw error;
      await rest(pause);
    }
  }
};
// onnxruntime-web fetches each of its files once. An instance that failed to fetch one is unusable, so a new one tries
// again. A server reply that the file does not exist is not such a failure.
const LOST = /fetch|network|load failed|importing a module/i;
const gotten = async (load) => {
  let until;
  for (let again = 0; ; again++) {
    performance.clearResourceTimings(); // a browser keeps 250 of them
    try { return await load(again); } catch (error) {
      until ??= Date.now() + AWAY_MS;
      const refused = performance.getEntriesByType("resource").some(({ responseStatus }) => responseStatus >= 400);
      if (refused || !LOST.test(String(error?.message ?? error)) || Date.now() > until) throw error;
      await rest(500);
    }
  }
};
let posted = 0;
const post = (what, body, headers = {}) => ask(what, "text", { method: "POST", body, headers: { ...headers, "x-number": String(posted++) } });

// Console output goes to the log, in order. Hooked before onnxruntime-web loads, because it stores console's functions
// at start.
let printed = [], sending = Promise.resolve();
const flush = () => {
  if (!printed.length) return sending;
  const body = JSON.stringify(printed);
  printed = [];
  sending = sending.then(() => post("console", body));
  return sending;
};
for (const level of ["debug", "log", "info", "warn", "error"]) {
  const usual = console[level].bind(console);
  console[level] = (...parts) => {
    usual(...parts);
    printed.push(parts.map((part) => (typeof part === "string" ? part : part instanceof Error ? String(part) : JSON.stringify(part))).join(" "));
    if (printed.length > 500) flush();
  };
}

// Output of trace marks, which the console functions above do not see.
const marked = () => {
  const began = new Map();
  console.time = (label) => { began.set(label, clock()); };
  console.timeEnd = (label) => {
    printed.push(`${label}: ${clock() - began.get(label)} ms`);
    if (printed.length > 500) flush();
  };
};

const say = async (message) => { await flush(); await post("say", JSON.stringify(message)); };
let received = 0;
const next = async () => {
  for (;;) {
    const { status, body } = await ask(`next/${received}`, "text");
    if (status === 204) continue;
    if (status !== 200) throw new Error("this page is no longer needed by ortune");
    received++;
    return JSON.parse(body);
  }
};

// Figures of the whole browser, which the page itself cannot measure.
const cpu = async () => Number((await ask("cpu", "text")).body);
const compiling = async () => Number((await ask("compiling", "text")).body) / 1e6;
const heap = async () => Number((await ask("heap", "text")).body); // after a garbage collection

const ns = (ms) => Math.round(ms * 1e6);
const clock = () => performance.now();

class Stop extends Error {
  constructor(reason, what, knob = "") { super(what); this.reason = reason; this.knob = knob; }
}

const ARRAYS = {
  float: Float32Array, double: Float64Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array,
  int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array, bool: Uint8Array,
  float16: globalThis.Float16Array ?? Uint16Array,
};
const NAMES = { float: "float32", double: "float64" };
const ONNX = { float32: "float", float64: "double" };

const tensorsOf = async (ort, feed) => {
  const found = [];
  for (const [i, { name, onnx_type, dims }] of feed.inputs.entries()) {
    const { body } = await ask(`feed/${feed.index}/${i}`, "arrayBuffer");
    const data = onnx_type === "string" ? JSON.parse(new TextDecoder().decode(body)) : new ARRAYS[onnx_type](body);
    found.push([name, NAMES[onnx_type] ?? onnx_type, data, dims]);
  }
  return found;
};

// A proxy worker takes ownership of the tensors' memory, so each run needs new tensors.
const feeds = (ort, given, fresh) =>
  Object.fromEntries(given.map(([name, type, data, dims]) => [name, new ort.Tensor(type, fresh ? data.slice() : data, dims)]));

const put = (target, key, value) => {
  const parts = key.split("."), last = parts.pop();
  let at = target;
  for (const part of parts) at = at[part] ??= {};
  at[last] = value;
};
const get = (target, key) => key.split(".").reduce((at, part) => at?.[part], target);

const median = (values) => [...values].sort((a, b) => a - b)[(values.length - 1) >> 1];

// Returns whether the last third of the runs took as long as the third before and, with `faster`, much less than the first.
const level = (taken, faster = false) => {
  const part = Math.floor(taken.length / 3);
  if (part < 3) return false;
  const [a, b] = [median(taken.slice(-2 * part, -part)), median(taken.slice(-part))];
  return Math.abs(a - b) <= Math.max(0.05 * Math.min(a, b), tick) && (!faster || b <= FASTER * median(taken.slice(0, FIRST)));
};

// Returns how long a run blocks the page's main thread: the longest time between two event loop turns, and the number of
// 60 Hz frames lost per run.
const BLOCK_RUNS = 8, BLOCK_MS = 300; // one run of a slow model is enough
const blocked = async (run) => {
  const { port1, port2 } = new MessageChannel();
  let last = clock(), longest = 0, lost = 0, over = false;
  const ended = new Promise((done) => {
    port1.onmessage = () => {
      const now = clock();
      longest = Math.max(longest, now - last);
      lost += Math.floor((now - last) / (1000 / 60));
      last = now;
      if (over) done(); else port2.postMessage(0);
    };
  });
  port2.postMessage(0);
  const began = clock();
  let runs = 0;
  do { await run(); runs++; } while (runs < BLOCK_RUNS && clock() - began < BLOCK_MS);
  over = true;
  await ended;
  port1.close();
  return { block_ns: ns(longest), frames_lost: lost / runs };
};

let tick = 0; // resolution of the page's clock in milliseconds
const resolution = () => {
  let least = Infinity;
  for (let i = 0; i < 20; i++) {
    const start = clock();
    let end = clock();
    while (end === start) end = clock();
    least = Math.min(least, end - start);
  }
  return least;
};

const reasonOf = (error, phase) => {
  const text = String(error?.message ?? error);
  if (error instanceof Stop) return error.reason;
  // Sizes have 32 bits in WebAssembly, so an overflow means more memory than it can address.
  if (/out of memory|allocation failed|memory access out of bounds|Aborted\(OOM|bad_alloc|SafeIntOnOverflow/i.test(text)) return "out-of-memory";
  if (phase !== "loading" && /invalid dimensions|unexpected input data type|ERROR_CODE: 2\b|feed|input '[^']*' is missing/i.test(text)) return "input-error";
  return phase === "loading" ? "load-error" : "run-error";
};

// Returns the optimised graph that ONNX Runtime saves. Without a file system, the file that it opens is stream 0, to which
// Emscripten cannot write, so a second instance is patched to support that; closing the file fails.
const WRITES = /0===(\w+)\|\|10===\1\?\(\(1===(\w+)\?/;
const graphOf = async (builds, build, env, model, options) => {
  const parts = [];
  let part = new Uint8Array(1 << 20), filled = 0, asked = "";
  globalThis.ortuneSaved = (byte) => {
    if (filled === part.length) { parts.push(part); part = new Uint8Array(part.length); filled = 0; }
    part[filled++] = byte;
  };
  try {
    const code = performance.getEntriesByType("resource").map(({ name }) => name).find((name) => /\/ort-wasm[^/]*\.mjs$/.test(name));
    const text = await (await fetch(code)).text();
    if (!WRITES.test(text)) return undefined;
    asked = URL.createObjectURL(new Blob([text.replace(WRITES, "0===$2?globalThis.ortuneSaved($1):$&")], { type: "text/javascript" }));
    const ort = await import(`${builds}${build}#graph`);
    for (const [key, value] of Object.entries(env)) put(ort.env, key, value);
    Object.assign(ort.env.wasm, { wasmPaths: { mjs: asked, wasm: code.replace(/mjs$/, "wasm") }, numThreads: 1, proxy: false });
    const all = { ...options, optimizedModelFilePath: "graph.onnx", enableProfiling: false, logSeverityLevel: 3 };
    await (await ort.InferenceSession.create(model, all)).release();
  } catch { /* the graph was written before, or is incomplete and no model */ } finally { URL.revokeObjectURL(asked); }
  return parts.length || filled ? new Blob([...parts, part.subarray(0, filled)]) : undefined;
};

let phase = "loading";

// Browsers throttle hidden pages, so times measured while hidden are discarded.
let hides = 0;
document.addEventListener("visibilitychange", () => { if (document.hidden) hides++; });
const inSight = (limit_ms) => new Promise((done, fail) => {
  const look = () => {
    if (document.hidden) return;
    clearTimeout(limit);
    document.removeEventListener("visibilitychange", look);
    done();
  };
  const limit = setTimeout(() => fail(new Stop("hidden", `the page was hidden for ${limit_ms / 1000} s`)), limit_ms);
  document.addEventListener("visibilitychange", look);
  look();
});

const trial = async () => {
  const request = await next();
  const { build, env, session: options, provider, profile } = request;
  const soak = request.soak && new (await import(`${here}soaking.js`)).Soak(request.soak, heap);
  const builds = new URL(request.builds, here).href, about = {};
  let repeated = 0;
  // Repeats the work if the page was hidden in the meantime.
  const seen = async (work) => {
    for (;; repeated++) {
      await inSight(request.hidden_ms);
      const before = hides, found = await work();
      await rest(0); // visibility events arrive only after a run that blocks the page
      if (hides === before && !document.hidden) return found;
    }
  };
  // Does work that happens once; in a separate trial, whose figures count, it must not be hidden meanwhile.
  const once = async (what, work) => {
    await inSight(request.hidden_ms);
    const before = hides, found = await work();
    await rest(0);
    if (request.alone && (hides !== before || document.hidden)) throw new Stop("hidden", `the page was hidden while ${what}`);
    return found;
  };
  if (provider === "webgpu") {
    const adapter = await navigator.gpu?.requestAdapter({ powerPreference: env["webgpu.powerPreference"] });
    if (!adapter) throw new Stop("load-error", "this browser has no WebGPU adapter");
    const { vendor, architecture, description, isFallbackAdapter } = adapter.info ?? {}; // older browsers have no such information
    about.adapter = { vendor, architecture, description, fallback: Boolean(adapter.isFallbackAdapter ?? isFallbackAdapter), float16: adapter.features.has("shader-f16") };
  }
  if (provider === "webnn") {
    if (!navigator.ml) throw new Stop("load-error", "this browser has no WebNN");
    await navigator.ml.createContext();
  }
  if (provider === "webgl") {
    const gl = document.createElement("canvas").getContext("webgl2");
    const description = gl?.getParameter(gl.getExtension("WEBGL_debug_renderer_info")?.UNMASKED_RENDERER_WEBGL ?? gl.RENDERER);
    about.adapter = { description, fallback: /swiftshader|llvmpipe|softpipe|software|basic render/i.test(description ?? "") };
  }
  if (profile) marked();
  const instance = async (name) => {
    const found = await import(builds + build + name);
    found.env.wasm.wasmPaths = builds;
    if (profile && provider === "webgpu") put(found.env, "webgpu.profiling.mode", "default"); // needed by JSEP only
    for (const [key, value] of Object.entries(env)) put(found.env, key, value);
    if (profile) found.env.trace = true;
    return found;
  };
  let ort = await once("it imported onnxruntime-web", () => gotten(async (again) => {
    const imported = clock(), found = await instance(again ? `#${again}` : "");
    about.import_ns = ns(clock() - imported);
    return found;
  }));
  const version = ort.env.versions?.web ?? ort.env.versions?.common ?? "";
  await say({ message: "ready", version: request.version, ort_version: version });

  Object.assign(about, { isolated: self.crossOriginIsolated, agent: navigator.userAgent, resolution_ns: ns((tick = resolution())) });
  const fetched = clock();
  const model = new Uint8Array((await ask("model", "arrayBuffer")).body);
  const externalData = [];
  for (const [i, path] of request.external.entries()) externalData.push({ path, data: new Uint8Array((await ask(`data/${i}`, "arrayBuffer")).body) });
  about.fetch_ns = ns(clock() - fetched);
  const all = { ...options };
  if (externalData.length) all.externalData = externalData;
  if (profile) all.enableProfiling = true;
  if (request.placement) all.logSeverityLevel = 0;
  let load_ns = 0;
  await soak?.start();
  let session = await once("it loaded the model", () => gotten(async (again) => {
    if (again) ort = await instance(`#session-${again}`);
    const began = clock(), found = await ort.InferenceSession.create(model, all);
    load_ns = ns(clock() - began);
    return found;
  }));
  // WebAssembly is fetched while the session is created, and compiled while it arrives, so the time of the fetch is
  // subtracted. The name of the file identifies the build.
  const wasm = performance.getEntriesByType("resource").filter(({ name }) => /\.wasm([?#]|$)/.test(name));
  about.wasm_fetch_ns = ns(wasm.reduce((sum, { startTime, responseEnd }) => sum + responseEnd - startTime, 0));
  load_ns = Math.max(0, load_ns - about.wasm_fetch_ns);
  about.files = wasm.map(({ name }) => name.split(/[?#]/)[0].split("/").pop());
  phase = "running";
  await say({ message: "loaded", load_ns });

  const fresh = Boolean(ort.env.wasm.proxy);
  const device = provider === "webgpu" ? await ort.env.webgpu?.device : undefined;
  const outside = Boolean(device) && options.preferredOutputLocation === "gpu-buffer";
  // With outputs on the GPU, a run returns when its work is queued, so the queue is awaited.
  const run = async (given) => {
    const outputs = await session.run(given);
    if (outside) await device.queue.onSubmittedWorkDone();
    return outputs;
  };
  const release = (outputs) => { if (outside) for (const value of Object.values(outputs)) if (value.location === "gpu-buffer") value.dispose(); };
  const onGpu = (given) => Object.fromEntries(given.map(([name, type, data, dims]) => {
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength), size = Math.ceil(bytes.length / 16) * 16;
    const buffer = device.createBuffer({ size, usage }), padded = new Uint8Array(size);
    padded.set(bytes);
    device.queue.writeBuffer(buffer, 0, padded);
    return [name, ort.Tensor.fromGpuBuffer(buffer, { dataType: type, dims })];
  }));
  const fed = (given, copied) => (request.inputs_on_gpu && device ? onGpu(given) : feeds(ort, given, copied));
  const gap = request.gap_ns / 1e6;
  const cases = [];
  const timed = async (one, n, waits = []) => {
    const found = [];
    for (let i = 0; i < n; i++) {
      const given = fresh ? feeds(ort, one.given, true) : one.feeds;
      const start = clock();
      const outputs = await run(given);
      let end = clock();
      if (request.wait_ratio) {
        const ran = end, until = end + (end - start) * request.wait_ratio;
        while (end < until) end = clock();
        waits.push(ns(end - ran));
      }
      found.push(end - start);
      release(outputs);
      if (gap) await rest(gap);
    }
    return found;
  };
  let wall = 0, runs = 0, cpuNs = 0;

  const warm = async () => {
    for (const feed of request.feeds) {
      const given = await tensorsOf(ort, feed);
      const one = { name: feed.name, weight: feed.weight, given, feeds: fed(given, false), latencies: [], waits: [], turns: [], warmup: 0, steady: true };
      cases.push(one);
      const outputs = await once("it ran for the first time", async () => {
        const start = clock(), found = await run(fresh ? feeds(ort, given, true) : one.feeds);
        one.first = ns(clock() - start);
        return found;
      });
      one.shapes = [];
      for (const [i, name] of session.outputNames.entries()) {
        const value = outputs[name];
        one.shapes.push(value.dims);
        if (!request.keep) continue;
        const data = value.location === "cpu" || value.location === "cpu-pinned" ? value.data : await value.getData();
        const about = { case: feed.index, index: i, name, onnx_type: ONNX[value.type] ?? value.type, dims: value.dims };
        await post("output", value.type === "string" ? JSON.stringify(data) : data, { "x-about": encodeURIComponent(JSON.stringify(about)) });
      }
      release(outputs);
    }
    if (!request.warmup_runs) return;
    for (const [i, one] of cases.entries()) {
      const began = clock(), least = Math.max(request.warm_ms, request.warmup_ns / 1e6), asked = Math.max(COMPILED_MS, request.warmup_ns / 1e6);
      const watched = provider === "wasm" && !request.compiled && !profile && i === 0;
      let before = watched ? await compiling() : 0, looked = clock();
      const taken = await timed(one, request.warmup_runs);
      const warm = () => {
        const ran = clock() - began, compiled = request.compiled || i > 0; // functions that the first case made hot are hot in the others
        if (profile && taken.length >= PROFILED) return true;
        const short = median(taken.slice(-FIRST)) < SHORT_MS;
        const most = compiled || short || provider !== "wasm" ? least : Math.max(request.again_ms, least);
        return ran >= most || (ran >= (compiled ? asked : least) && level(taken, !compiled));
      };
      const more = async (ms) => {
        const until = clock() + ms;
        do taken.push(...(await timed(one, 1))); while (clock() < until);
      };
      while (!warm()) await more(LOOK_MS);
      while (watched && clock() - began < request.again_ms) {
        const now = await compiling(), share = (now - before) / (clock() - looked);
        if (share < request.compiling) break;
        [before, looked] = [now, clock()];
        await more(COMPILING_MS);
      }
      const tail = taken.slice(-6), half = tail.length >> 1;
      if (half) {
        const [a, b] = [median(tail.slice(0, half)), median(tail.slice(half))];
        one.steady = Math.abs(a - b) <= 0.1 * Math.min(a, b);
      }
      one.warmup = taken.length;
    }
    if (!profile) Object.assign(about, await seen(() => blocked(() => timed(cases[0], 1))));
  };

  // Returns the times of a whole run, of a run with its inputs on the GPU, and of one with inputs and outputs there.
  const apart = async () => {
    const [{ given, feeds: from }] = cases, to = onGpu(given), bytes = (tensors) => tensors.reduce((sum, [, , data]) => sum + data.byteLength, 0);
    const made = Object.entries(await session.run(from)).map(([name, { type, data, dims }]) => [name, type, data, dims]);
    const results = onGpu(made), ways = [
      () => session.run(from),
      () => session.run(to),
      async () => { await session.run(to, results); await device.queue.onSubmittedWorkDone(); },
    ];
    const taken = ways.map(() => []), began = clock();
    const more = (turn) => turn <= 1 || (turn <= APART.most && clock() - began < (turn <= APART.least ? APART.most_ms : APART.ms));
    for (let turn = 0; more(turn); turn++) {
      for (const [i, way] of ways.entries()) {
        const start = clock();
        await way();
        if (turn) taken[i].push(clock() - start); // the first run allocates buffers
      }
    }
    const [whole_ns, fed_ns, device_ns] = taken.map((times) => ns(median(times)));
    return { whole_ns, fed_ns, device_ns, input_bytes: bytes(given), output_bytes: bytes(made), n_runs: taken[0].length };
  };

  const share = request.feeds.reduce((sum, feed) => sum + feed.weight, 0);
  const due = (one, n) => {
    const mine = Math.round((n * one.weight * cases.length) / share);
    return n && cases.length > 1 ? Math.max(1, mine) : mine;
  };
  const turn = async (n, unmeasured) => {
    const found = await seen(async () => {
      for (const one of cases) await timed(one, unmeasured);
      const cpuBefore = await cpu(), began = clock(), taken = cases.map((one) => ({ one, times: [], waits: [] }));
      const chunks = cases.length > 1 ? CHUNKS : 1;
      for (let chunk = 0; chunk < chunks; chunk++) {
        for (const { one, times, waits } of taken) {
          const runs = due(one, n), mine = Math.floor((runs * (chunk + 1)) / chunks) - Math.floor((runs * chunk) / chunks);
          times.push(...(await timed(one, mine, waits)));
        }
      }
      return { taken, wall: clock() - began, cpuNs: (await cpu()) - cpuBefore };
    });
    for (const { one, times, waits } of found.taken) {
      one.latencies.push(...times.map(ns));
      one.waits.push(...waits);
      one.turns.push(times.length);
      runs += times.length;
    }
    wall += found.wall;
    cpuNs += found.cpuNs;
  };

  if (soak) {
    for (const feed of request.feeds) cases.push({ weight: feed.weight, given: await tensorsOf(ort, feed) });
    soak.begin(cases, {
      make: (given) => fed(given, fresh),
      run: (given) => run(given),
      release: (given, outputs) => {
        for (const value of Object.values(given)) if (value.location === "gpu-buffer") value.gpuBuffer.destroy();
        release(outputs);
      },
      refused: (error) => reasonOf(error, phase) !== "out-of-memory",
      rest: async () => { if (gap) await rest(gap); },
      again: async () => {
        await session.release();
        session = await ort.InferenceSession.create(model, all);
      },
    });
  }
  for (;;) {
    const told = await next();
    if (told.do === "finish") break;
    if (told.do === "soak") {
      await inSight(request.hidden_ms);
      await say({ message: "soak-point", ...(await soak.turn(told.calls)) });
      continue;
    }
    if (told.do === "warm") await warm();
    else if (told.do === "run") await turn(told.runs, told.unmeasured);
    else throw new Stop("protocol", `unknown command ${JSON.stringify(told.do)}`);
    await say({ message: "turn-over" });
  }
  phase = "reporting";
  if (profile) ort.env.trace = false;
  try { if (profile) session.endProfiling(); } catch { /* webgl has no profile */ }
  if (profile && device && !fresh && !outside && !request.inputs_on_gpu) {
    await rest(300);
    if (ort.env.webgpu.profiling) ort.env.webgpu.profiling.mode = "off";
    try { about.gpu_run = await seen(apart); } catch { /* a tensor that cannot be on the GPU */ }
  }
  const read = Object.fromEntries(Object.keys(env).map((key) => [key, get(ort.env, key) ?? null]));
  let inputs = [];
  try { inputs = session.inputMetadata?.map(({ name, shape }) => ({ name, shape })) ?? []; } catch { /* webgl has no such metadata */ }
  await rest(profile ? 300 : 0); // records of the GPU arrive later
  await flush();
  if (soak) {
    const ended = await soak.finish(() => session.release());
    await say({ message: "soak-done", ort_version: version, ...ended, about: { ...about, env: read, inputs, repeated_turns: repeated } });
    return;
  }
  if (request.graph) {
    const graph = await graphOf(builds, build, env, model, all);
    if (graph) await post("output", graph, { "x-about": encodeURIComponent(request.graph) });
    printed = []; // of the second instance
  }
  await say({
    message: "done", load_ns, cpu_ns: Math.max(0, Math.round(cpuNs)), wall_ns: ns(wall), n_runs: runs, ort_version: version, providers: [provider],
    cases: cases.map((one) => ({
      case: one.name, weight: one.weight, latency_ns: one.latencies, first_ns: one.first, warmup_runs: one.warmup, steady: one.steady,
      waits_ns: one.waits, output_shapes: one.shapes, turn_runs: one.turns,
    })),
    about: { ...about, env: read, inputs, repeated_turns: repeated },
  });
};

fetch(here + "alive"); // stays open; its end shows that the page is gone
trial().catch(async (error) => {
  await say({ message: "error", reason: reasonOf(error, phase), what: String(error?.message ?? error).slice(0, 2000), phase, knob: error.knob ?? "" });
});
