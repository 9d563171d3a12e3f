// The map of a collection: all points on a canvas, to move, to zoom, and to read what is under the pointer.

import { ask, element, json, page, post } from "./console.js";

const EXCERPT = 240;
const PAUSE_MS = 120;
const RADIUS = 4;
const HALF = 6; // of the square that a point is painted in
const MARGIN = 14;
const FARTHEST = 400;
const TAP_PIXELS = 5;
const figure = document.querySelector("#map");
const { collection, field, where } = figure.dataset;
const box = figure.querySelector(".canvas");
const canvas = box.querySelector("canvas");
const tip = box.querySelector(".tip");
const rows = [...document.querySelectorAll(".legend tr[data-group]")];

const query = new URLSearchParams();
if (field) query.set("field", field);
if (where) query.set("where", where);
const path = `/collections/${encodeURIComponent(collection)}`;
const { points } = await json(await ask(`${path}/projection?${query}`));
const { ids } = points;
const [xs, ys] = [Float32Array.from(points.x), Float32Array.from(points.y)];
const groups = Uint8Array.from(figure.dataset.groups, (digit) => parseInt(digit, 16));
if (groups.length !== ids.length) {
  // The collection has changed since the page was made. One that is written to all the time stays as it is drawn there.
  if (performance.getEntriesByType("navigation")[0].type !== "reload") window.location.reload();
  await new Promise(() => {});
}

figure.querySelector(".drawn").remove();
for (const each of [box, ...document.querySelectorAll(".scripted")]) each.hidden = false;

// Where the reader looks: the middle of the canvas in the points' numbers, and how far they have zoomed in.
let center = [0, 0];
let scale = 1;
const hidden = new Set();
let shown = null; // the point that is told
const unit = () => (Math.min(canvas.clientWidth, canvas.clientHeight) / 2 - MARGIN) * scale;
const middle = () => [canvas.clientWidth / 2, canvas.clientHeight / 2];

function placeOf(index) {
  const [left, top] = middle();
  return [left + (xs[index] - center[0]) * unit(), top - (ys[index] - center[1]) * unit()];
}

function valueAt(x, y) {
  const [left, top] = middle();
  return [center[0] + (x - left) / unit(), center[1] - (y - top) / unit()];
}

/** Return the point at a place of the canvas, null when none is that near. */
function at(left, top, reach = 8) {
  const [x, y] = valueAt(left, top);
  let nearest = null;
  let least = (reach / unit()) ** 2;
  for (let index = 0; index < ids.length; index += 1) {
    const distance = (xs[index] - x) ** 2 + (ys[index] - y) ** 2;
    if (distance <= least && !hidden.has(groups[index])) [nearest, least] = [index, distance];
  }
  return nearest;
}

/** Move the points to the right and down by pixels. */
function move(right, down) {
  center = [center[0] - right / unit(), center[1] + down / unit()];
  point(null);
  draw();
}

/** Zoom by a factor around a place of the canvas, its middle unless one is given. */
function zoom(factor, [left, top] = middle()) {
  const [x, y] = valueAt(left, top);
  scale = Math.min(FARTHEST, Math.max(0.5, scale * factor));
  const [movedX, movedY] = valueAt(left, top);
  center = [center[0] + x - movedX, center[1] + y - movedY];
  move(0, 0);
}

function reset() {
  [scale, center] = [1, [0, 0]];
  move(0, 0);
}

for (const row of rows) {
  row.querySelector("input").addEventListener("change", ({ target }) => {
    hidden[target.checked ? "delete" : "add"](Number(row.dataset.group));
    draw();
  });
}
for (const button of figure.querySelectorAll("[data-zoom]")) {
  button.addEventListener("click", () => (Number(button.dataset.zoom) ? zoom(Number(button.dataset.zoom)) : reset()));
}
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), [event.offsetX, event.offsetY]);
}, { passive: false });
box.addEventListener("pointermove", (event) => event.buttons === 0 && point(at(event.offsetX, event.offsetY)));
box.addEventListener("pointerleave", () => point(null));

const fingers = new Map();
let began = null; // what may become a tap
canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  canvas.setPointerCapture(event.pointerId);
  fingers.set(event.pointerId, event);
  began = fingers.size === 1 ? event : null;
});
canvas.addEventListener("pointermove", (event) => {
  const before = fingers.get(event.pointerId);
  if (!before) return;
  const other = [...fingers.values()].find((each) => each.pointerId !== event.pointerId);
  fingers.set(event.pointerId, event);
  const apart = (one, two) => Math.hypot(one.offsetX - two.offsetX, one.offsetY - two.offsetY);
  if (other) {
    const [was, is] = [apart(before, other), apart(event, other)];
    if (was > 0 && is > 0) zoom(is / was, [(event.offsetX + other.offsetX) / 2, (event.offsetY + other.offsetY) / 2]);
  } else if (!began || apart(event, began) >= TAP_PIXELS) {
    began = null;
    move(event.offsetX - before.offsetX, event.offsetY - before.offsetY);
  }
});
canvas.addEventListener("pointerup", (event) => {
  if (!fingers.delete(event.pointerId) || !began) return;
  began = null;
  const isTouch = event.pointerType === "touch";
  const index = at(event.offsetX, event.offsetY, isTouch ? 24 : 8);
  // A finger cannot hover: its first tap tells what a point is, the second opens it.
  if (index === null || (isTouch && index !== shown)) point(index);
  else open(index, event.ctrlKey || event.metaKey);
});
canvas.addEventListener("pointercancel", (event) => fingers.delete(event.pointerId));

box.addEventListener("keydown", (event) => {
  const [right, down] = [canvas.clientWidth / 10, canvas.clientHeight / 10];
  const done = {
    ArrowLeft: () => move(right, 0),
    ArrowRight: () => move(-right, 0),
    ArrowUp: () => move(0, down),
    ArrowDown: () => move(0, -down),
    "+": () => zoom(1.5),
    "=": () => zoom(1.5),
    "-": () => zoom(1 / 1.5),
    0: reset,
    Escape: () => point(null),
    Enter: () => shown !== null && open(shown, false),
  }[event.key];
  if (!done || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  done();
  // With keys, the point nearest to the middle is the one that is told.
  if (event.key !== "Escape" && event.key !== "Enter") point(at(...middle(), Infinity), true);
});

let waiting = 0;
function point(index, aloud = false) {
  if (index === shown && !aloud) return;
  shown = index;
  draw();
  clearTimeout(waiting);
  tip.hidden = true;
  if (index !== null) waiting = setTimeout(tell, texts.has(index) ? 0 : PAUSE_MS, index, aloud);
}

async function tell(index, aloud) {
  const text = await textOf(index).catch((error) => ({ title: ids[index], excerpt: error.message }));
  if (shown !== index) return;
  const group = rows[groups[index]].querySelector("span span").textContent;
  const value = field ? element("span", { class: "text-body-secondary" }, `${field}: ${group}`) : "";
  tip.replaceChildren(element("strong", {}, text.title), value, element("span", {}, text.excerpt));
  tip.hidden = false;
  const [x, y] = placeOf(index);
  tip.style.left = `${Math.max(0, Math.min(x + 12, box.clientWidth - tip.offsetWidth - 4))}px`;
  tip.style.top = `${y + 12 + tip.offsetHeight < box.clientHeight ? y + 12 : Math.max(0, y - 12 - tip.offsetHeight)}px`;
  if (aloud) document.querySelector("#told").textContent = `${text.title}. ${text.excerpt}`;
}

const texts = new Map();
async function textOf(index) {
  if (texts.has(index)) return texts.get(index);
  const { documents } = await json(await post(`${path}/documents/search`, { ids: [ids[index]], limit: 1 }));
  if (!documents.length) return { title: ids[index], excerpt: "It was deleted meanwhile." };
  const [{ text, metadata }] = documents;
  const excerpt = text.length > EXCERPT ? `${text.slice(0, EXCERPT)} …` : text;
  texts.set(index, { title: metadata.title || metadata.source || ids[index], excerpt });
  return texts.get(index);
}

function open(index, inNew) {
  const address = page(`${path}/document?id=${encodeURIComponent(ids[index])}`);
  if (inNew) window.open(address, "_blank", "noopener");
  else window.location.assign(address);
}

// The legend's symbols are the points' shapes and colours, painted once for each size of the canvas.
let sprites = [];
function prepare() {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(canvas.clientHeight * ratio);
  sprites = rows.map((row) => {
    const symbol = row.querySelector(".symbol");
    const sprite = new OffscreenCanvas(Math.ceil(2 * HALF * ratio), Math.ceil(2 * HALF * ratio));
    const pen = sprite.getContext("2d");
    pen.scale(ratio, ratio);
    pen.translate(HALF, HALF);
    pen.scale(RADIUS / 6, RADIUS / 6);
    pen.fillStyle = getComputedStyle(symbol).color;
    pen.globalAlpha = 0.8;
    pen.fill(new Path2D(symbol.querySelector("path").getAttribute("d")));
    return sprite;
  });
  draw();
}

let frame = 0;
function draw() {
  frame ||= requestAnimationFrame(paint);
}

function paint() {
  frame = 0;
  const { clientWidth: width, clientHeight: height } = canvas;
  const pen = canvas.getContext("2d");
  pen.setTransform(canvas.width / width, 0, 0, canvas.height / height, 0, 0);
  pen.clearRect(0, 0, width, height);
  // Documents of rare values would vanish under the many others: groups are painted last first.
  for (let group = sprites.length - 1; group >= 0; group -= 1) {
    for (let index = 0; index < ids.length && !hidden.has(group); index += 1) {
      if (groups[index] !== group) continue;
      const [x, y] = placeOf(index);
      const isSeen = x > -HALF && y > -HALF && x < width + HALF && y < height + HALF;
      if (isSeen) pen.drawImage(sprites[group], x - HALF, y - HALF, 2 * HALF, 2 * HALF);
    }
  }
  if (shown === null) return;
  pen.strokeStyle = getComputedStyle(canvas).color;
  pen.lineWidth = 2;
  pen.beginPath();
  pen.arc(...placeOf(shown), RADIUS * 2, 0, 2 * Math.PI);
  pen.stroke();
}

new ResizeObserver(prepare).observe(canvas);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", prepare);
