// The form of a connection: judged while somebody types, tested stage by stage, with models to choose from.

import { element, json, post } from "./console.js";
import { events } from "./events.js";

const PAUSE_MS = 400;
const BADGES = { passed: "text-bg-success", failed: "text-bg-danger" };
const form = document.querySelector("#connection");
const { type, provider, changes } = form.dataset;
const fields = [...form.querySelectorAll("[data-field]")];
const touched = new Set();

let waiting;
let judging = 0;
form.addEventListener("input", (event) => {
  if (event.target.dataset.field) touched.add(event.target.dataset.field);
  clearTimeout(waiting);
  waiting = setTimeout(judge, PAUSE_MS);
});

/** Return the configuration as the service's own reading of the form makes it. */
function config() {
  const given = new FormData(form);
  const found = {};
  for (const input of fields) {
    const { field: name, choice, type: kind } = input.dataset;
    if (choice && given.has("choice") && choice !== given.get("choice")) continue;
    const isSecret = kind === "password";
    const text = isSecret ? input.value || given.get(`variable.${name}`) || "" : input.value.trim();
    if (isSecret && !text && given.get(`remove.${name}`)) found[name] = "";
    if (text) found[name] = valueOf(text, input);
  }
  return found;
}

function valueOf(text, input) {
  const kind = input.dataset.type;
  if (kind === "list") return text.split("\n").map((line) => line.trim()).filter(Boolean);
  if (kind === "select") return "json" in input.selectedOptions[0].dataset ? JSON.parse(text) : text;
  if (kind === "boolean") return text === "true";
  if (kind !== "number") return text;
  try {
    const value = JSON.parse(text);
    return typeof value === "number" ? value : text;
  } catch {
    return text;
  }
}

function candidate() {
  return { provider, config: config(), changes };
}

async function judge() {
  const mine = ++judging;
  let judged;
  try {
    judged = await json(await post("/api/connections/validate", { type, ...candidate() }));
  } catch (error) {
    judged = { errors: [{ pointer: "", message: error.message }], warnings: [] };
  }
  if (mine === judging) show(judged.errors, judged.warnings, (name) => touched.has(name));
}

/** Say what is wrong beside the fields that are meant; what belongs to none stands above them. */
function show(errors, remarks, isMeant = () => true) {
  const names = new Set(fields.map((field) => field.dataset.field));
  const at = (fault) => fault.pointer.split("/")[1]?.replaceAll("~1", "/").replaceAll("~0", "~") ?? "";
  for (const field of fields) {
    const name = field.dataset.field;
    const wrong = isMeant(name) ? errors.filter((fault) => at(fault) === name) : [];
    field.classList.toggle("is-invalid", wrong.length > 0);
    if (wrong.length) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
    say(
      document.querySelector(`#${CSS.escape(`field-${name}-errors`)}`),
      ...wrong.map((fault) => element("p", { class: "text-danger-emphasis mb-0" }, fault.message)),
      ...remarks.filter((fault) => at(fault) === name).map((fault) => element("p", { class: "text-warning-emphasis mb-0" }, fault.message)),
    );
    if (wrong.length) field.closest("details")?.setAttribute("open", "");
  }
  const general = touched.size ? errors.filter((fault) => !names.has(at(fault))) : [];
  say(document.querySelector("#general"), ...general.map((fault) => element("p", { class: "alert alert-danger" }, fault.message)));
}

/** Replace what a live region says, unless it says the same already: it would be read again. */
function say(region, ...said) {
  if (region.textContent !== said.map((each) => each.textContent).join("")) region.replaceChildren(...said);
}

let testing;
form.querySelector("#test").addEventListener("click", async (event) => {
  event.preventDefault();
  testing?.abort();
  testing = new AbortController();
  const { signal } = testing;
  const stages = document.querySelector("#stages");
  const verdict = document.querySelector("#verdict");
  const behind = document.querySelector("#behind");
  document.querySelector("#tested").hidden = false;
  stages.replaceChildren();
  behind.replaceChildren();
  verdict.textContent = "Testing …";
  try {
    const response = await post(`/api/connections/${type}/test`, { ...candidate(), stream: true }, { signal });
    if (!response.ok) await json(response);
    for await (const event of events(response.body)) {
      if (event.stage) stages.append(stage(event.stage));
      if (event.stage?.errors) show(event.stage.errors, []);
      if (event.error && !event.done) throw new Error(event.message ?? event.error);
      if (event.done) {
        verdict.textContent = event.success ? `It works, after ${event.duration} ms.` : `${event.message}.`;
        if (event.collections?.length) behind.replaceChildren(collections(event.collections, event.collectionCount));
      }
    }
  } catch (error) {
    if (signal.aborted) return;
    verdict.textContent = error.message;
    show(error.body?.details?.errors ?? [], []);
  }
});

function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function stage(each) {
  return element(
    "li",
    { class: `stage ${each.verdict}` },
    element("span", { class: `badge ${BADGES[each.verdict] ?? "text-bg-secondary"}` }, each.verdict),
    " ",
    element("strong", { class: "text-capitalize" }, each.name),
    ` ${each.message} `,
    each.verdict === "skipped" ? "" : element("span", { class: "text-body-secondary small" }, `${each.latency_ms} ms`),
    each.next_step ? element("p", { class: "mb-0" }, each.next_step) : "",
  );
}

function collections(found, count) {
  const rows = found.map((each) =>
    element("tr", {}, element("th", { scope: "row" }, each.name), element("td", { class: "text-end" }, String(each.count ?? "–"))),
  );
  const head = element("tr", {}, element("th", { scope: "col" }, counted(count, "collection")), element("th", { scope: "col", class: "text-end" }, "Documents"));
  return element(
    "div",
    { class: "table-wide", tabindex: "0", role: "region", "aria-label": "Their names and sizes" },
    element("table", { class: "table table-sm" }, element("thead", {}, head), element("tbody", {}, ...rows)),
  );
}

form.querySelector("#models")?.addEventListener("click", async (event) => {
  event.preventDefault();
  const said = document.querySelector("#models-said");
  said.textContent = "Asking for the models …";
  try {
    const { models } = await json(await post(`/api/connections/${type}/discovery/models`, candidate()));
    const list = document.querySelector("#field-model-list");
    list.replaceChildren(...models.map((each) => element("option", { value: each.id }, each.description)));
    said.textContent = models.length ? `${counted(models.length, "model")} to choose from.` : "The service lists no models for this.";
  } catch (error) {
    const failed = error.body?.stages?.find((each) => each.verdict === "failed");
    said.textContent = failed ? `${failed.message}. ${failed.next_step}` : error.message;
    show(failed?.errors ?? error.body?.details?.errors ?? [], []);
  }
});
