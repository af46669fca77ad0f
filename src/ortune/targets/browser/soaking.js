// Soak in a page: calls the model with new values each time, and reports the memory after each turn. Loaded by page.js.
import { counters } from "./counters.js";

const LATENCIES = 4096; // limit of latencies per turn for the median
const STEP_BYTES = 64 << 10; // smallest rise of the level that counts as a step

// Returns a generator of pseudo-random numbers from 0 to 1 for a seed (mulberry32).
const numbers = (seed) => {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
};

// Returns new values for an input, of its type and in its range, in a separate array.
const changed = (kind, low, high, data, draw, count) => {
  if (kind === "text") return data.map((text) => `${text} ${count}`);
  const made = new data.constructor(data.length);
  if (kind === "integers" && low !== null) {
    const wide = high - low + 1, big = typeof data[0] === "bigint";
    for (let i = 0; i < made.length; i++) {
      const value = low + Math.floor(draw() * wide);
      made[i] = big ? BigInt(value) : value;
    }
    return made;
  }
  const from = Math.floor(draw() * data.length);
  made.set(data.subarray(from));
  made.set(data.subarray(0, from), data.length - from);
  // Scaled by a factor between 0.5 and 1, to stay within their range. float16 bits in a Uint16Array cannot be scaled.
  if (kind === "floats" && !(data instanceof Uint16Array)) {
    const by = 1 - 0.5 * draw();
    for (let i = 0; i < made.length; i++) made[i] *= by;
  }
  return made;
};

export class Soak {
  // asked: the inputs with new values, the seed, and the number of calls after which sessions are recreated. heap: returns
  // the bytes of JavaScript's heap after a garbage collection.
  constructor(asked, heap) {
    Object.assign(this, { asked, heap, draw: numbers(asked.seed), look: counters() });
    this.fresh = new Map(asked.fresh.map((one) => [one.name, one]));
    this.fixed = new Set();
    Object.assign(this, { calls: 0, sessions: 1, active: 0, high: 0, steps: [] });
  }

  async memory() {
    const heap = await this.heap(), { wasm, gpu, buffers } = this.look();
    return { held_bytes: heap + wasm + gpu, heap_bytes: heap, wasm_bytes: wasm, gpu_bytes: gpu, gpu_buffers: buffers };
  }

  // Records the memory before the session is created.
  async start() { this.base = (await this.memory()).held_bytes; }

  // cases: weight and input values of each case. acts: functions of page.js: make (creates tensors), run, release (of
  // inputs and outputs), again (recreates the session), refused (whether an error is due to values, not memory), rest.
  begin(cases, acts) {
    Object.assign(this, { cases, acts });
    const sizes = cases.map(({ given }) => given.reduce((sum, [, , data]) => sum + data.length, 0));
    this.smallest = sizes.indexOf(Math.min(...sizes));
    this.weight = cases.reduce((sum, { weight }) => sum + weight, 0);
    this.steps = cases.map((_, number) => ({ case: number, calls: 0, first_call: 0, last_step_call: 0, bytes: 0 }));
    this.high = this.level();
  }

  // Returns the bytes of WebAssembly and GPU memory, which are known without a garbage collection.
  level() {
    const { wasm, gpu } = this.look();
    return wasm + gpu;
  }

  pick() {
    // The first call has the smallest size, so the growth caused by larger sizes is counted.
    if (!this.calls) return this.smallest;
    let left = this.draw() * this.weight;
    const found = this.cases.findIndex(({ weight }) => (left -= weight) < 0);
    return found < 0 ? this.cases.length - 1 : found;
  }

  values(given) {
    return given.map(([name, type, data, dims]) => {
      const one = this.fresh.get(name);
      return [name, type, one && data.length ? changed(one.kind, one.low, one.high, data, this.draw, this.calls) : data, dims];
    });
  }

  // Stops changing integer inputs, else all inputs, after an error; returns false if none was changing.
  keep() {
    const integers = [...this.fresh.values()].filter(({ kind }) => kind === "integers");
    const kept = (integers.length ? integers : [...this.fresh.values()]).map(({ name }) => name);
    for (const name of kept) { this.fresh.delete(name); this.fixed.add(name); }
    return kept.length > 0;
  }

  async call() {
    const number = this.pick(), { given } = this.cases[number], { make, run, release, refused } = this.acts;
    this.calls++;
    let inputs = make(this.values(given)), start = performance.now(), outputs;
    try {
      outputs = await run(inputs);
    } catch (error) {
      if (!refused(error) || !this.keep()) throw error;
      inputs = make(given);
      start = performance.now();
      outputs = await run(inputs);
    }
    const took = performance.now() - start, now = this.level(), step = this.steps[number];
    release(inputs, outputs);
    step.first_call ||= this.calls;
    step.calls++;
    if (now > this.high + STEP_BYTES) {
      step.bytes += now - this.high;
      step.last_step_call = this.calls;
      this.high = now;
    }
    return took;
  }

  async turn(n) {
    const taken = [], began = performance.now(), { recreate } = this.asked;
    for (let i = 0; i < n; i++) {
      const took = await this.call();
      if (taken.length < LATENCIES) taken.push(took);
      await this.acts.rest();
      if (recreate && this.calls % recreate === 0) {
        await this.acts.again();
        this.sessions++;
      }
    }
    this.active += performance.now() - began;
    taken.sort((a, b) => a - b);
    const latency = taken.length ? taken[(taken.length - 1) >> 1] : 0;
    return {
      calls: this.calls, sessions: this.sessions, active_ns: Math.round(1e6 * this.active), latency_ns: Math.round(1e6 * latency),
      ...(await this.memory()),
    };
  }

  // gone: function that releases the session.
  async finish(gone) {
    const idle = await this.memory();
    await gone();
    const released = await this.memory();
    return { base_bytes: this.base, idle_bytes: idle.held_bytes, released_bytes: released.held_bytes, steps: this.steps, fixed: [...this.fixed] };
  }
}
