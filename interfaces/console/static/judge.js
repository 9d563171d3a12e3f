// Thumbs beside passages, without a new page. Pressing one again takes the judgement back.

import { ask, json, post } from "./console.js";

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
