// The answer of the chat model as it comes, with citations that lead to their passages.

import { element, page, post } from "./console.js";
import { events } from "./events.js";

const form = document.querySelector("#ask");
const shown = document.querySelector("#chat");

document.querySelector("#answer")?.addEventListener("click", (event) => {
  event.preventDefault();
  const question = form.elements.q.value.trim();
  if (question) answer(question, new FormData(form).getAll("collection"));
});

let running = null;

async function answer(question, collections) {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  const text = shown.querySelector(".text");
  const status = shown.querySelector(".status");
  const sources = shown.querySelector(".sources");
  shown.hidden = false;
  document.querySelector("#found")?.setAttribute("hidden", "");
  text.replaceChildren();
  sources.replaceChildren();
  status.textContent = "Reading the documents …";
  try {
    const body = { message: question, useRag: true, stream: true };
    if (collections.length) body.collections = collections;
    const response = await post("/api/chat", body, { signal });
    if (!response.ok) {
      const told = await response.json().catch(() => ({}));
      throw new Error(told.message ?? `The service answered ${response.status}`);
    }
    let said = "";
    for await (const event of events(response.body)) {
      if (event.error) throw new Error(event.message ?? event.error);
      if (event.delta) {
        said += event.delta;
        text.textContent = said;
        status.textContent = "Answering …";
      }
      if (event.done) finish(event, text, sources, status);
    }
  } catch (error) {
    if (signal.aborted) return;
    status.textContent = error.message;
    status.setAttribute("role", "alert");
  }
}

function finish(turn, text, sources, status) {
  const message = turn.data?.message ?? text.textContent;
  const known = new Map(turn.citations.map((each) => [each.number, each]));
  text.replaceChildren(...cited(message, known));
  sources.replaceChildren(...turn.ragSources.map((each, index) => source(each, index + 1, known.get(index + 1))));
  status.textContent = turn.ragSources.length ? `${turn.ragSources.length} sources` : "Nothing in the documents fits.";
}

function source(found, number, citation) {
  const collection = encodeURIComponent(found.collection);
  // A citation names the passage, an uncited source its document.
  const address = citation?.valid
    ? `/collections/${collection}/document?id=${encodeURIComponent(citation.id)}`
    : `/documents/of/${collection}?id=${encodeURIComponent(found.documentId)}`;
  const share = found.relevance === null ? "" : ` ${Math.round(found.relevance * 100)} %`;
  return element(
    "li",
    { id: `source-${number}` },
    element("a", { href: page(address) }, found.source),
    element("span", { class: "small text-body-secondary" }, share),
    element("p", { class: "passage" }, found.text),
  );
}

function cited(message, known) {
  return message.split(/(\[\d{1,3}\])/).map((piece) => {
    const number = Number(piece.match(/^\[(\d+)\]$/)?.[1]);
    if (!known.has(number)) return piece;
    if (!known.get(number).valid) return element("span", { class: "text-danger", title: "There is no such source" }, piece);
    return element("a", { href: `#source-${number}` }, piece);
  });
}
