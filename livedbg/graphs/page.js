"use strict";
const svg = document.getElementById("graph");
const nodes = Array.from(document.querySelectorAll("g.node"));
const full = svg.viewBox.baseVal;
const all = { x: 0, y: 0, width: full.width, height: full.height };
let view = { ...all };
let hits = [];
let turn = 0;

function show() {
  svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.height}`);
}

function scale() {
  return Math.max(view.width / svg.clientWidth, view.height / svg.clientHeight);
}

function go(node) {
  const at = node.transform.baseVal.consolidate().matrix;
  const unit = Math.min(scale(), 1.2);
  view = { width: svg.clientWidth * unit, height: svg.clientHeight * unit, x: 0, y: 0 };
  view.x = at.e + 75 - view.width / 2;
  view.y = at.f + 23 - view.height / 2;
  show();
}

svg.addEventListener("wheel", (event) => {
  event.preventDefault();
  const unit = scale();
  const box = svg.getBoundingClientRect();
  const x = view.x + view.width / 2 + (event.clientX - box.left - box.width / 2) * unit;
  const y = view.y + view.height / 2 + (event.clientY - box.top - box.height / 2) * unit;
  const by = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 400)));
  view = { x: x + (view.x - x) * by, y: y + (view.y - y) * by, width: view.width * by, height: view.height * by };
  show();
}, { passive: false });

svg.addEventListener("pointerdown", (event) => svg.setPointerCapture(event.pointerId));
svg.addEventListener("pointermove", (event) => {
  if (event.buttons & 1) {
    const unit = scale();
    view.x -= event.movementX * unit;
    view.y -= event.movementY * unit;
    show();
  }
});

function fit() {
  view = { ...all };
  show();
}

const input = document.getElementById("find");
input.addEventListener("input", () => {
  const wanted = input.value.toLowerCase();
  hits = wanted ? nodes.filter((node) => node.firstElementChild.textContent.toLowerCase().includes(wanted)) : [];
  const chosen = new Set(hits);
  for (const node of nodes) {
    node.classList.toggle("hit", chosen.has(node));
    node.classList.toggle("dim", wanted !== "" && !chosen.has(node));
  }
  document.getElementById("found").textContent = wanted ? `${hits.length} found` : "";
  turn = 0;
  if (hits.length) go(hits[0]);
});
input.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && hits.length) {
    turn = (turn + 1) % hits.length;
    go(hits[turn]);
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== input) {
    event.preventDefault();
    input.focus();
  } else if (event.key === "Escape") {
    input.value = "";
    input.dispatchEvent(new Event("input"));
    input.blur();
  }
});
document.getElementById("fit").addEventListener("click", fit);
for (const link of document.querySelectorAll("a[data-node]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    const node = nodes.find((one) => one.dataset.id === link.dataset.node);
    if (node) go(node);
  });
}
if (svg.clientHeight && Math.max(full.height / svg.clientHeight, full.width / svg.clientWidth) > 3) {  // too small to read
  const first = document.querySelector("g.node.end") || nodes[0];
  if (first) go(first);
}
