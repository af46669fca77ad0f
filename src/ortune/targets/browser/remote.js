// A browser elsewhere: it says what it is, and has in frames the pages that are to be open now, one a trial.
const here = new URL(".", import.meta.url).href;
const state = document.getElementById("state");
const MEASURING = "ortune measures here. Leave this page open and in sight, and the device to itself.";

const made = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

// The same after a reload: results of two browsers are never taken for one's.
const identity = () => {
  try {
    return (localStorage.ortune ??= made());
  } catch {
    return made(); // storage is refused
  }
};

// A screen that goes dark stops what runs.
const stayAwake = async () => {
  try { await navigator.wakeLock?.request("screen"); } catch { /* the battery is low, or the page is not in sight */ }
};

const frames = new Map();
const show = (pages) => {
  for (const [page, frame] of frames) if (!pages.includes(page)) { frame.remove(); frames.delete(page); }
  for (const page of pages) {
    if (frames.has(page)) continue;
    const frame = document.createElement("iframe");
    frame.src = page;
    frames.set(page, frame);
    document.body.append(frame);
  }
};

const id = identity(), page = made();
const hello = {
  id, page, agent: navigator.userAgent, secure: isSecureContext, isolated: Boolean(self.crossOriginIsolated), webgpu: Boolean(navigator.gpu),
  cores: navigator.hardwareConcurrency ?? 1, memory_gib: navigator.deviceMemory ?? 0,
};
const answer = await fetch(`${here}hello`, { method: "POST", body: JSON.stringify(hello) });
const TRIES = 60;
let tries = 0;
const listen = () => {
  const told = new EventSource(`${here}pages/${id}/${page}`); // comes back by itself when the network does
  told.onopen = () => { tries = 0; state.textContent = MEASURING; };
  told.onmessage = ({ data }) => {
    const { pages, over } = JSON.parse(data);
    show(pages);
    if (!over) return;
    told.close();
    state.textContent = "That is all: this page can be closed.";
  };
  // The frames stay: behind a screen that was locked they go on where they were.
  told.onerror = () => {
    state.textContent = "The connection to ortune is lost; trying again.";
    if (told.readyState !== EventSource.CLOSED) return;
    if (tries++ < TRIES) return void setTimeout(listen, 1000);
    show([]);
    state.textContent = "ortune is done, or measures in a page that was opened later: this one can be closed.";
  };
};
if (answer.ok) {
  listen();
  document.addEventListener("visibilitychange", () => { if (document.visibilityState === "visible") stayAwake(); });
  await stayAwake();
} else {
  state.textContent = answer.status === 409
    ? "ortune measures another browser already. Close it there, and start ortune anew to measure this one."
    : "ortune does not answer. Is it still running?";
}
