// Counts the memory of a page outside of JavaScript's heap: WebAssembly memories and GPU buffers. Must be called before
// either is used. Returns a function that returns the bytes of both and the number of buffers.
export const counters = () => {
  const memories = new Set(), known = new WeakSet(), sizes = new Map(), numbers = new WeakMap();
  const gone = new FinalizationRegistry((number) => { taken -= sizes.get(number) ?? 0; sizes.delete(number); });
  let made = 0, taken = 0;
  // Weak references, so that a released memory is not kept.
  const keep = (memory) => {
    if (!known.has(memory)) memories.add(new WeakRef(memory));
    known.add(memory);
  };
  const { Memory, instantiate, instantiateStreaming } = WebAssembly;
  WebAssembly.Memory = new Proxy(Memory, {
    construct(type, given, self) {
      const memory = Reflect.construct(type, given, self);
      keep(memory);
      return memory;
    },
  });
  const exported = (found) => {
    for (const one of Object.values((found.instance ?? found).exports)) if (one instanceof Memory) keep(one);
    return found;
  };
  WebAssembly.instantiate = async (...given) => exported(await instantiate.apply(WebAssembly, given));
  WebAssembly.instantiateStreaming = async (...given) => exported(await instantiateStreaming.apply(WebAssembly, given));
  if (globalThis.GPUDevice) {
    const { createBuffer } = GPUDevice.prototype, { destroy } = GPUBuffer.prototype;
    GPUDevice.prototype.createBuffer = function (...given) {
      const buffer = createBuffer.apply(this, given), number = made++;
      sizes.set(number, buffer.size);
      taken += buffer.size;
      numbers.set(buffer, number);
      gone.register(buffer, number);
      return buffer;
    };
    GPUBuffer.prototype.destroy = function () {
      const number = numbers.get(this);
      taken -= sizes.get(number) ?? 0;
      sizes.delete(number);
      return destroy.call(this);
    };
  }
  return () => {
    let wasm = 0;
    for (const each of memories) {
      const memory = each.deref();
      if (memory) wasm += memory.buffer.byteLength;
      else memories.delete(each);
    }
    return { wasm, gpu: taken, buffers: sizes.size };
  };
};
