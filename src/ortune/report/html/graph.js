
// The graph: its drawing is moved and zoomed as a whole. Without this script it is a drawing that scrolls.
(() => {
  const stage = document.getElementById("graph-stage");
  if (!stage) return;
  const svg = stage.querySelector("svg"), all = svg.firstElementChild;
  const controls = document.getElementById("graph-controls"), says = document.getElementById("graph-at");
  const [wide, high] = ["width", "height"].map((name) => Number(svg.getAttribute(name)));
  const boxes = [];
  for (const box of svg.querySelectorAll("[data-rank]")) boxes[Number(box.dataset.rank)] = box;
  let x = 0, y = 0, scale = 1, current = 0;

  const fitting = () => Math.min(1, stage.clientWidth / wide, stage.clientHeight / high);
  const draw = () => { all.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`); };
  // At least a part of the drawing stays in sight.
  const held = (at, size, room) => Math.min(room - 60, Math.max(60 - size * scale, at));
  const place = (left, top) => {
    x = held(left, wide, stage.clientWidth);
    y = held(top, high, stage.clientHeight);
    draw();
  };
  const zoom = (factor, at) => {
    const before = scale;
    scale = Math.min(3, Math.max(fitting() / 1.5, scale * factor));
    place(at[0] - ((at[0] - x) * scale) / before, at[1] - ((at[1] - y) * scale) / before);
  };
  const middle = () => [stage.clientWidth / 2, stage.clientHeight / 2];
  const whole = () => {
    scale = fitting();
    place((stage.clientWidth - wide * scale) / 2, (stage.clientHeight - high * scale) / 2);
  };
  const show = (rank) => {
    current = (rank + boxes.length) % boxes.length;
    boxes.forEach((box, i) => box.classList.toggle("current", i === current));
    const [left, top] = boxes[current].getAttribute("transform").match(/[\d.]+/g).map(Number);
    const [cx, cy] = middle(), size = boxes[current].getBBox();
    scale = Math.max(scale, Math.min(1, stage.clientWidth / 400));
    place(cx - (left + size.width / 2) * scale, cy - (top + size.height / 2) * scale);
    says.textContent = `${current + 1} of ${boxes.length}: ${boxes[current].querySelector("title").textContent}`;
  };

  const point = (event) => {
    const box = stage.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    zoom(Math.exp(Math.max(-240, Math.min(240, -event.deltaY * unit)) * 0.003), point(event));
  }, { passive: false });
  // One pointer drags, two pinch.
  const down = new Map();
  stage.addEventListener("pointerdown", (event) => {
    down.set(event.pointerId, point(event));
    stage.setPointerCapture(event.pointerId);
    stage.classList.add("held-down");
  });
  stage.addEventListener("pointermove", (event) => {
    const now = point(event), before = down.get(event.pointerId);
    if (!before) return;
    const other = [...down].find(([id]) => id !== event.pointerId);
    if (other) {
      const apart = ([a, b]) => Math.max(10, Math.hypot(a - other[1][0], b - other[1][1]));
      zoom(apart(now) / apart(before), other[1]);
    } else place(x + now[0] - before[0], y + now[1] - before[1]);
    down.set(event.pointerId, now);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    stage.addEventListener(end, (event) => { down.delete(event.pointerId); if (!down.size) stage.classList.remove("held-down"); });
  }

  const acts = {
    in: () => zoom(1.5, middle()), out: () => zoom(1 / 1.5, middle()), all: whole, back: () => show(current - 1), next: () => show(current + 1),
  };
  controls.addEventListener("click", (event) => { const act = acts[event.target.dataset.do]; if (act) act(); });
  const keys = {
    "+": acts.in, "=": acts.in, "-": acts.out, Home: acts.all,
    ArrowLeft: () => place(x + 80, y), ArrowRight: () => place(x - 80, y), ArrowUp: () => place(x, y + 80), ArrowDown: () => place(x, y - 80),
  };
  stage.addEventListener("keydown", (event) => { const act = keys[event.key]; if (act) { event.preventDefault(); act(); } });

  stage.classList.add("live");
  controls.hidden = false;
  svg.setAttribute("width", "100%");
  svg.setAttribute("height", "100%");
  show(0);
})();
