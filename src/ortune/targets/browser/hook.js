// Inserted into the class InferenceSession of onnxruntime-web in an observed page: reports the calls of its methods to
// the console, after a mark. KEPT, MARK, MOST and COUNTERS are replaced before use.
(InferenceSession) => {
  const kept = KEPT, most = MOST, say = console.debug.bind(console), clock = () => performance.now();
  const tell = (message) => say(MARK + JSON.stringify(message));
  const numbers = new WeakMap();
  kept.memory ??= (COUNTERS)();
  kept.files ??= new Set(); // WebAssembly files that were already assigned to a copy of onnxruntime-web
  // A page may contain several copies, each with its own environment, which is defined before its class.
  const own = { wasm: kept.wasm, webgpu: kept.webgpu, versions: kept.versions };
  kept.wasm = kept.webgpu = kept.versions = undefined;
  const part = (name) => own[name] ?? kept[name];
  let before, file = ""; // the environment is read once, at the first session
  const safely = (read, otherwise) => { try { return read(); } catch { return otherwise; } };
  const isBytes = (value) => ArrayBuffer.isView(value) || value instanceof ArrayBuffer || Object.prototype.toString.call(value) === "[object SharedArrayBuffer]";

  const text = (value) => (typeof value === "string" ? value : JSON.stringify(plain(value, 0)) ?? String(value)).slice(0, 500);
  const plain = (value, depth) => {
    if (typeof value === "function" || typeof value === "bigint") return typeof value === "bigint" ? String(value) : "function";
    if (isBytes(value)) return `${value.byteLength} bytes`;
    if (value === null || typeof value !== "object") return value;
    if (depth > 3) return "...";
    if (Array.isArray(value)) return value.slice(0, 50).map((each) => plain(each, depth + 1));
    return Object.fromEntries(Object.entries(value).slice(0, 50).map(([name, each]) => [name, plain(each, depth + 1)]));
  };
  const described = (given) => Object.fromEntries(Object.entries(given ?? {}).filter(([, value]) => value !== undefined).slice(0, 100).map(([name, value]) => [name, text(value)]));
  const environment = () => {
    const found = {};
    for (const name of ["numThreads", "simd", "proxy", "wasmPaths", "trace"]) if (part("wasm")?.[name] !== undefined) found[`wasm.${name}`] = part("wasm")[name];
    for (const name of ["profiling", "profilingMode", "powerPreference", "forceFallbackAdapter"]) {
      const value = safely(() => part("webgpu")?.[name]);
      if (value !== undefined) found[`webgpu.${name}`] = value;
    }
    return described(found);
  };

  // The WebAssembly file that this session waited for; a program may have fetched it before. If several copies load at the
  // same time, the page cannot assign the files, and "" is returned.
  const loadedSince = (start) => {
    const found = performance.getEntriesByType("resource").filter(({ name }) => /\.wasm([?#]|$)/.test(name));
    const since = [...new Set(found.filter(({ startTime }) => startTime >= start).map(({ name }) => name))];
    const mine = since.filter((name) => !kept.files.has(name));
    if (mine.length > 1) return "";
    const name = mine[0] ?? since.at(-1) ?? found.findLast((each) => each.name.includes("ort-wasm"))?.name ?? "";
    kept.files.add(name);
    return name;
  };

  const BITS = { int4: 4, uint4: 4, int8: 8, uint8: 8, bool: 8, int16: 16, uint16: 16, float16: 16, int32: 32, uint32: 32, float32: 32, int64: 64, uint64: 64, float64: 64 };
  const bytes = (tensor) => safely(() => Math.ceil((tensor.dims.reduce((a, b) => a * b, 1) * (BITS[tensor.type] ?? 0)) / 8), 0);
  const tensors = (named) => Object.entries(named).slice(0, 2000).filter(([, value]) => value?.dims).map(([name, value]) =>
    ({ name, type: String(value.type), shape: value.dims.map(String), location: String(safely(() => value.location, "")) }));
  const declared = (read) => safely(() => (read() ?? []).slice(0, 2000).map((each) =>
    ({ name: String(each.name), type: String(each.type ?? ""), shape: (each.shape ?? []).map(String) })), []);

  const address = (file) => (typeof file === "string" && file ? safely(() => new URL(file, location.href).href, file) : "");
  const size = (file) => (typeof file === "string" ? 0 : file.byteLength ?? file.size ?? 0);
  // A view of the passed bytes, never a copy; the page may have transferred them by the time they are read.
  const view = (file) => (typeof file === "string" || file instanceof Blob ? file : ArrayBuffer.isView(file) ? new Uint8Array(file.buffer, file.byteOffset, file.byteLength) : new Uint8Array(file));
  const weights = (options) => safely(() => [...(options.externalData ?? [])].slice(0, 500).map((each) =>
    (typeof each === "string" ? { path: each, data: each } : { path: String(each.path), data: view(each.data) })), []);
  // A view keeps its whole buffer alive, even if the page no longer needs it. Files beyond the limit are not kept, since
  // the observation must not exhaust the page's memory.
  const whole = ({ data }) => data.buffer ?? data;
  const keep = (files) => {
    const all = [];
    kept.models.push(all);
    for (const file of files) {
      const held = new Set([...kept.models.flat(), file].map(whole));
      const total = [...held].reduce((sum, each) => sum + size(each), 0);
      all.push(total > most && typeof file.data !== "string" ? { ...file, data: "" } : file);
    }
  };

  // Opens a file of a model: number 0 is the model itself, the others are its weights.
  kept.open = async (number, which, bytes) => {
    const file = kept.models[number][which];
    if (file.data instanceof Blob) file.data = new Uint8Array(await file.data.arrayBuffer());
    const url = address(file.data) || (bytes && performance.getEntriesByType("resource").find((each) => each.decodedBodySize === bytes)?.name) || "";
    // The passed bytes may have been transferred to a worker.
    const gone = typeof file.data === "string" || (bytes && !file.data.byteLength);
    if (gone && url) {
      const answer = await fetch(url, { cache: "force-cache" });
      if (!answer.ok) throw new Error(`HTTP status ${answer.status} for ${url}`);
      file.data = new Uint8Array(await answer.arrayBuffer());
    }
    return { url, size: size(file.data) };
  };
  kept.piece = (number, which, from, length) => {
    const found = kept.models[number][which].data.subarray(from, from + length), parts = [];
    for (let at = 0; at < found.length; at += 8192) parts.push(String.fromCharCode(...found.subarray(at, at + 8192)));
    return btoa(parts.join(""));
  };

  const { create } = InferenceSession, { run } = InferenceSession.prototype;
  InferenceSession.create = async function (...given) {
    const number = kept.models.length, model = given[0];
    const last = given[given.length - 1];
    const has = given.length > 1 && last !== null && typeof last === "object" && !isBytes(last);
    const options = has ? last : {};
    const beside = weights(options);
    keep([{ path: "", data: view(model) }, ...beside]);
    const external = beside.map(({ path, data }) => ({ path, url: address(data), size_bytes: size(data) }));
    tell({ kind: "asked", number, url: address(model).slice(0, 2000), bytes: size(model), external, options: described(options), environment: (before ??= environment()) });
    given[has ? given.length - 1 : given.length] = { ...options, logSeverityLevel: 0 }; // the log contains the provider of each node
    const start = clock();
    try {
      const session = await create.apply(this, given);
      const took = clock() - start;
      file ||= loadedSince(start);
      numbers.set(session, { number, runs: 0, device: new Map() });
      tell({ kind: "created", number, ms: took, inputs: declared(() => session.inputMetadata), outputs: declared(() => session.outputMetadata), environment: environment(), version: String(part("versions")?.web ?? part("versions")?.common ?? ""), file });
      return session;
    } catch (error) {
      tell({ kind: "failed", number, what: String(error?.message ?? error).slice(0, 1000) });
      throw error;
    }
  };
  InferenceSession.prototype.run = async function (...given) {
    const known = numbers.get(this);
    if (!known) return run.apply(this, given);
    const first = !known.runs++, { number } = known;
    const inputs = first ? safely(() => tensors(given[0]), []) : [];
    const start = clock();
    let outputs;
    try {
      outputs = await run.apply(this, given);
    } catch (error) {
      tell({ kind: "run-failed", number, what: String(error?.message ?? error).slice(0, 1000) });
      throw error;
    }
    const ms = clock() - start;
    safely(() => {
      const values = Object.values(outputs), passed = new Set(Object.values(given[1] ?? {}));
      for (const [name, value] of Object.entries(outputs)) {
        if (value.location !== "gpu-buffer" && value.location !== "ml-tensor") continue;
        const { getData, dispose } = value;
        let ended = () => {};
        if (!passed.has(value)) { // a tensor that the page passed for an output belongs to the page
          const held = known.device.get(name) ?? { made: 0, disposed: 0, size_bytes: 0 };
          held.made++;
          held.size_bytes = bytes(value);
          known.device.set(name, held);
          ended = () => { held.disposed++; ended = () => {}; };
        }
        value.getData = function (...rest) {
          tell({ kind: "read", number, bytes: bytes(value) });
          if (rest[0]) ended(); // it also disposes of the tensor
          return getData.apply(this, rest);
        };
        value.dispose = function (...rest) { ended(); return dispose.apply(this, rest); };
      }
      const there = values.filter((value) => value.location === "cpu" || value.location === "cpu-pinned");
      tell({ kind: "run", number, ms, back: there.reduce((sum, value) => sum + bytes(value), 0), inputs, outputs: first ? tensors(outputs) : [], device: [...known.device].slice(0, 500).map(([name, held]) => ({ name, ...held })), memory: kept.memory() });
    });
    return outputs;
  };
}
