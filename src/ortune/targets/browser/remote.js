// Runs in the remote browser: reports the browser's properties, and keeps each trial page open in a frame.
const here = new URL(".", import.meta.url).href;
const state = document.getElementById("state");
const MEASURING = "Measurement in progress. Keep this page open and visible, and do not use the device.";

const randomId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

// Stable across reloads, so results of two browsers are never mixed.
const identity = () => {
  try {
    return (localStorage.ortune ??= randomId());
  } catch {
    return randomId(); // storage is blocked
  }
};

// Browsers stop scripts when the screen turns off.
const stayAwake = async () => {
  try { await navigator.wakeLock?.request("screen"); } catch { /* low battery, or the page is hidden */ }
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

const id = identity(), page = randomId();
const hello = {
  id, page, agent: navigator.userAgent, secure: isSecureContext, isolated: Boolean(self.crossOriginIsolated), webgpu: Boolean(navigator.gpu),
  cores: navigator.hardwareConcurrency ?? 1, memory_gib: navigator.deviceMemory ?? 0,
};
const answer = await fetch(`${here}hello`, { method: "POST", body: JSON.stringify(hello) });
const TRIES = 60;
let tries = 0;
const listen = () => {
  const told = new EventSource(`${here}pages/${id}/${page}`); // reconnects by itself
  told.onopen = () => { tries = 0; state.textContent = MEASURING; };
  told.onmessage = ({ data }) => {
    const { pages, over } = JSON.parse(data);
    show(pages);
    if (!over) return;
    told.close();
    state.textContent = "Measurement complete. You can close this page.";
  };
  // Keep the frames: after a screen lock they continue.
  told.onerror = () => {
    state.textContent = "Connection to ortune lost. Reconnecting.";
    if (told.readyState !== EventSource.CLOSED) return;
    if (tries++ < TRIES) return void setTimeout(listen, 1000);
    show([]);
    state.textContent = "ortune has finished, or uses a page that was opened later. You can close this page.";
  };
};
if (answer.ok) {
  listen();
  document.addEventListener("visibilitychange", () => { if (document.visibilityState === "visible") stayAwake(); });
  await stayAwake();
} else {
  state.textContent = answer.status === 409
    ? "ortune is already measuring another browser. To measure this one, close the other page and restart ortune."
    : "ortune does not respond. Check that it is still running.";
}
