// The map of a collection: all points on a canvas, to move, to zoom, and to read what is under the pointer.

import { ask, element, json, page, post } from "./console.js";
import { View } from "./map_view.js";

const EXCERPT = 240;
const KEPT_TEXTS = 500;
const PAUSE_MS = 120;
const figure = document.querySelector("#map");
const { collection, field, where } = figure.dataset;
const box = figure.querySelector(".canvas");
const tip = box.querySelector(".tip");
const texts = new Map();
const rows = [...document.querySelectorAll(".legend tr[data-group]")];

const query = new URLSearchParams();
if (field) query.set("field", field);
if (where) query.set("where", where);
const path = `/collections/${encodeURIComponent(collection)}`;
const projection = await json(await ask(`${path}/projection${query.size ? `?${query}` : ""}`));
const { ids } = projection.points;
const groups = groupsOf(projection);

figure.querySelector(".drawn").remove();
box.hidden = false;
for (const each of document.querySelectorAll(".scripted")) each.hidden = false;
const view = new View(box.querySelector("canvas"), projection.points, groups, rows.map((row) => row.querySelector(".symbol")));
view.onMove = () => point(null);
let shown = null;
let waiting = 0;

for (const row of rows) {
  row.querySelector("input").addEventListener("change", (event) => view.show(Number(row.dataset.group), event.target.checked));
}
for (const button of figure.querySelectorAll("[data-zoom]")) {
  button.addEventListener("click", () => (Number(button.dataset.zoom) ? view.zoom(Number(button.dataset.zoom)) : view.reset()));
}
box.addEventListener("pointermove", (event) => event.buttons === 0 && point(view.at(event.offsetX, event.offsetY)));
box.addEventListener("pointerleave", () => point(null));
view.onTap = (x, y, event) => {
  const index = view.at(x, y, event.pointerType === "touch" ? 24 : 8);
  // A finger cannot hover: its first tap tells what a point is, the second opens it.
  if (index === null || (event.pointerType === "touch" && index !== shown)) point(index);
  else open(index, event.ctrlKey || event.metaKey);
};
box.addEventListener("keydown", (event) => {
  const step = 0.1;
  const done = {
    ArrowLeft: () => view.pan(step, 0),
    ArrowRight: () => view.pan(-step, 0),
    ArrowUp: () => view.pan(0, step),
    ArrowDown: () => view.pan(0, -step),
    "+": () => view.zoom(1.5),
    "=": () => view.zoom(1.5),
    "-": () => view.zoom(1 / 1.5),
    0: () => view.reset(),
    Escape: () => point(null),
    Enter: () => shown !== null && open(shown, false),
  }[event.key];
  if (!done || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  done();
  // With keys, the point nearest to the middle is the one that is told.
  if (event.key !== "Escape" && event.key !== "Enter") point(view.atMiddle(), true);
});

function groupsOf({ points, scale, categories }) {
  const named = rows.length - 2;
  const [others, without] = [named, named + 1];
  if (!scale) return new Uint8Array(ids.length).fill(others);
  const bounds = JSON.parse(figure.dataset.bounds);
  const ofNumber = (value) => Math.max(0, bounds.findLastIndex((bound) => bound <= value));
  const ofPlace = (value) => (value >= 0 && value < Math.min(named, categories.length) ? value : others);
  const of = scale === "numbers" ? ofNumber : ofPlace;
  return Uint8Array.from(points.value, (value) => (value === null ? without : of(value)));
}

function point(index, aloud = false) {
  if (index === shown && !aloud) return;
  shown = index;
  view.mark(index);
  clearTimeout(waiting);
  tip.hidden = true;
  if (index !== null) waiting = setTimeout(() => tell(index, aloud), texts.has(index) ? 0 : PAUSE_MS);
}

async function tell(index, aloud) {
  let text;
  try {
    text = await textOf(index);
  } catch (error) {
    text = { title: ids[index], excerpt: error.message };
  }
  if (shown !== index) return;
  const group = rows[groups[index]];
  const value = field ? element("span", { class: "text-body-secondary" }, `${field}: ${group.querySelector("span span").textContent}`) : "";
  tip.replaceChildren(element("strong", {}, text.title), value, element("span", {}, text.excerpt));
  tip.hidden = false;
  const [x, y] = view.placeOf(index);
  tip.style.left = `${Math.max(0, Math.min(x + 12, box.clientWidth - tip.offsetWidth - 4))}px`;
  tip.style.top = `${y + 12 + tip.offsetHeight < box.clientHeight ? y + 12 : Math.max(0, y - 12 - tip.offsetHeight)}px`;
  if (aloud) document.querySelector("#told").textContent = `${text.title}. ${text.excerpt}`;
}

async function textOf(index) {
  const known = texts.get(index);
  if (known) return known;
  const { documents } = await json(await post(`${path}/documents/search`, { ids: [ids[index]], limit: 1 }));
  if (!documents.length) return { title: ids[index], excerpt: "It was deleted meanwhile." };
  const [{ text, metadata }] = documents;
  const made = {
    title: metadata.title || metadata.source || ids[index],
    excerpt: text.length > EXCERPT ? `${text.slice(0, EXCERPT)} …` : text,
  };
  if (texts.size >= KEPT_TEXTS) texts.delete(texts.keys().next().value);
  texts.set(index, made);
  return made;
}

function open(index, inNew) {
  const address = page(`/collections/${encodeURIComponent(collection)}/document?id=${encodeURIComponent(ids[index])}`);
  if (inNew) window.open(address, "_blank", "noopener");
  else window.location.assign(address);
}
