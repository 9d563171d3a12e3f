// The answers of the chat model as they come, one conversation on a page, with citations that lead to their passages.

import { ask, element, json, page, post } from "./console.js";

const form = document.querySelector("#ask");
const shown = document.querySelector("#chat");
const turns = shown.querySelector(".turns");

document.querySelector("#answer")?.addEventListener("click", (event) => {
  event.preventDefault();
  const question = form.elements.q.value.trim();
  if (question) answer(question);
});

let running = null;
let conversation; // undefined, which JSON leaves out, until there is one

async function answer(question) {
  if (running) {
    running.abort();
    turns.lastElementChild.remove(); // what breaks off is not remembered
  }
  running = new AbortController();
  const { signal } = running;
  const asked = said();
  const turn = begun(question, asked);
  const [text, status] = [turn.querySelector(".text"), turn.querySelector(".status")];
  try {
    const body = { message: question, useRag: true, stream: true, conversationId: conversation, ...asked };
    const response = await post("/api/chat", body, { signal });
    if (!response.ok) await json(response);
    let words = "";
    for await (const event of events(response.body)) {
      if (event.error) throw Object.assign(new Error(event.message ?? event.error), { body: event });
      if (event.thought) {
        turn.querySelector(".thoughts").hidden = false;
        turn.querySelector(".thoughts p").append(event.thought);
      }
      if (event.delta) {
        words += event.delta;
        show(text, words);
        status.textContent = "Answering …";
      }
      if (event.done) finish(event, question, turn);
    }
  } catch (error) {
    if (signal.aborted) return;
    status.textContent = error.message;
    status.setAttribute("role", "alert");
    const connections = turn.querySelector(".connections");
    if (connections) connections.hidden = error.body?.code !== "chat_unavailable";
  }
  running = null;
}

/** Return which collections and documents are asked, as the form says. */
function said() {
  const fields = new FormData(form);
  const asked = {};
  if (fields.has("collection")) asked.collections = fields.getAll("collection");
  if (fields.has("where")) asked.where = JSON.parse(fields.get("where"));
  return asked;
}

/** Yield the JSON of each server-sent event of a response's body. */
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split(/\r?\n\r?\n/);
    rest = parts.pop();
    for (const part of parts) {
      const data = part.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n");
      if (data) yield JSON.parse(data);
    }
  }
}

function begun(question, asked) {
  const turn = document.querySelector("#turn").content.firstElementChild.cloneNode(true);
  turn.querySelector(".question").textContent = question;
  turn.querySelector(".status").textContent = "Reading the documents …";
  const query = new URLSearchParams({ q: question });
  for (const each of asked.collections ?? []) query.append("collection", each);
  if (asked.where) query.set("where", JSON.stringify(asked.where));
  turn.querySelector(".passages").href = page(`/ask?${query}`);
  turns.append(turn);
  shown.hidden = false;
  document.querySelector("#found")?.setAttribute("hidden", "");
  turn.scrollIntoView({ block: "nearest" });
  return turn;
}

function finish(turn, question, place) {
  conversation = turn.data.conversationId;
  const searched = turn.receipt?.query_text;
  if (searched && searched !== question) {
    place.querySelector(".searched").textContent = `Searched for: ${searched}`;
    place.querySelector(".searched").hidden = false;
  }
  const prefix = `source-${turns.children.length}`;
  const known = new Map(turn.citations.map((each) => [each.number, each]));
  show(place.querySelector(".text"), ...cited(turn.data.message, known, prefix));
  const sources = turn.ragSources.map((each, index) => source(each, `${prefix}-${index + 1}`, known.get(index + 1)));
  place.querySelector(".sources").replaceChildren(...sources);
  const count = sources.length === 1 ? "1 source" : `${sources.length} sources`;
  const found = sources.length ? count : "Nothing in the documents fits.";
  place.querySelector(".status").textContent = [...(turn.warnings ?? []), found].join(" · ");
  form.elements.q.value = "";
  form.elements.q.placeholder = "Ask on";
  shown.after(form);
}

function show(text, ...parts) {
  text.replaceChildren(...parts);
  text.closest(".answer").hidden = false;
}

function source(found, id, citation) {
  const collection = encodeURIComponent(found.collection);
  // A citation names the passage, an uncited source its document.
  const address = citation?.valid
    ? `/collections/${collection}/document?id=${encodeURIComponent(citation.id)}`
    : `/documents/of/${collection}?id=${encodeURIComponent(found.documentId)}`;
  const share = found.relevance === null ? "" : ` ${Math.round(found.relevance * 100)} %`;
  return element(
    "li",
    { id },
    element("a", { href: page(address) }, found.source),
    element("span", { class: "small text-body-secondary" }, share),
    element("p", { class: "passage" }, found.text),
  );
}

function cited(message, known, prefix) {
  return message.split(/(\[\d{1,3}\])/).map((piece) => {
    const number = Number(piece.match(/^\[(\d+)\]$/)?.[1]);
    if (!known.has(number)) return piece;
    if (!known.get(number).valid) return element("span", { class: "text-danger", title: "There is no such source" }, piece);
    return element("a", { href: `#${prefix}-${number}` }, piece);
  });
}

// Thumbs beside passages, without a new page. Pressing one again takes the judgement back.
for (const form of document.querySelectorAll("form.judge")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    judge(form, event.submitter).catch((error) => { form.querySelector("[role=status]").textContent = error.message; });
  });
}

async function judge(form, pressed) {
  const { collection, document: documentId, judgement } = form.dataset;
  form.querySelector("[role=status]").textContent = "";
  const isTakenBack = pressed.getAttribute("aria-pressed") === "true";
  if (isTakenBack) {
    await json(await ask(`/api/judgements/${encodeURIComponent(judgement)}`, { method: "DELETE" }));
    delete form.dataset.judgement;
  } else {
    const body = { question: form.elements.question.value, collection, document_id: documentId, grade: Number(pressed.dataset.grade) };
    form.dataset.judgement = (await json(await post("/api/judgements", body))).id;
  }
  // The same document may be among the hits more than once.
  for (const other of document.querySelectorAll("form.judge")) {
    if (other.dataset.document !== documentId || other.dataset.collection !== collection) continue;
    if (isTakenBack) delete other.dataset.judgement;
    else other.dataset.judgement = form.dataset.judgement;
    for (const button of other.querySelectorAll("button")) {
      const isPressed = !isTakenBack && button.dataset.grade === pressed.dataset.grade;
      button.setAttribute("aria-pressed", String(isPressed));
      button.classList.toggle("active", isPressed);
    }
  }
}
