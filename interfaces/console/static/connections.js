// The form of a connection: judged while somebody types, tested, with models to choose from. The page that answers the
// form says all this; parts of it take the place of those of the page that is shown.

import { fetched, renew } from "./console.js";

const PAUSE_MS = 400;
const form = document.querySelector("#connection");
const verdict = form.querySelector("#verdict");
const touched = new Set();
const latest = {};

let waiting;
form.addEventListener("input", ({ target }) => {
  if ("field" in target.dataset) touched.add(target.id);
  clearTimeout(waiting);
  if (touched.size) waiting = setTimeout(send, PAUSE_MS, "judge");
});

for (const button of form.querySelectorAll("#test, #models")) {
  button.addEventListener("click", (event) => {
    event.preventDefault();
    const said = button.id === "test" ? verdict : form.querySelector("#models-said");
    said.textContent = button.id === "test" ? "Testing …" : "Asking for the models …";
    if (button.id === "test") form.querySelector("#stages").replaceChildren();
    form.querySelector("#tested").hidden = button.id !== "test";
    send(button.value);
  });
}

async function send(what) {
  const mine = latest[what] = {};
  const body = new FormData(form);
  body.set("do", what);
  let answer;
  try {
    answer = await fetched(window.location.href, "#connection", { method: "POST", body: new URLSearchParams(body) });
  } catch (error) {
    form.querySelector("#tested").hidden = false;
    verdict.textContent = error.message;
    return;
  }
  if (mine !== latest[what]) return;
  // Of a field that nobody has touched yet, nothing is wrong while somebody types in another.
  const isMeant = (field) => what !== "judge" || touched.has(field.id);
  for (const field of form.querySelectorAll("[data-field]")) {
    const now = answer.getElementById(field.id);
    const said = answer.getElementById(`${field.id}-errors`);
    const isWrong = isMeant(field) && now.hasAttribute("aria-invalid");
    field.classList.toggle("is-invalid", isWrong);
    if (isWrong) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
    if (!isMeant(field)) for (const each of said.querySelectorAll(".text-danger-emphasis")) each.remove();
    renew(said);
    if (isWrong) field.closest("details")?.setAttribute("open", "");
  }
  for (const name of what === "judge" ? ["general"] : ["general", "stages", "verdict", "behind", "models-said", "field-model-list"]) {
    renew(answer.getElementById(name));
  }
  if (what !== "judge") form.querySelector("#tested").hidden = answer.querySelector("#tested").hidden;
}
