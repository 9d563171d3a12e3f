// What all pages share: asking the service with the rights of this session.

/** The text that requests of this session's pages send along. */
export const token = document.querySelector('meta[name="form-token"]').content;
/** The path below which the service is, empty for the root of its host. */
export const root = document.querySelector('meta[name="root"]').content;

const POLL_MS = 700;

/** Ask a route of the service. The session's cookie counts with the token of its pages only. */
export function ask(path, options = {}) {
  const headers = new Headers(options.headers);
  headers.set("X-Console-Token", token);
  return fetch(root + path, { ...options, headers, credentials: "same-origin" });
}

/** Return what an answer says, as JSON. Throws an Error with the service's own sentence for a refusal. */
export async function json(response) {
  const body = response.headers.get("Content-Type")?.startsWith("application/json") ? await response.json() : {};
  if (!response.ok) {
    throw Object.assign(new Error(body.message ?? `The service answered ${response.status}`), { status: response.status, body });
  }
  return body;
}

export function post(path, body, options = {}) {
  const headers = { "Content-Type": "application/json", ...options.headers };
  return ask(path, { ...options, method: "POST", headers, body: JSON.stringify(body) });
}

/** Return the page that an address answers with, whatever its status. Rejects with what it says when it has no part
 * with this selector. */
export async function fetched(address, selector, options = {}) {
  const response = await fetch(address, { ...options, credentials: "same-origin" });
  const answer = new DOMParser().parseFromString(await response.text(), "text/html");
  if (answer.querySelector(selector)) return answer;
  throw new Error(answer.querySelector("[role=alert]")?.textContent ?? `The service answered ${response.status}`);
}

/** Show in an element what the part of a page with a selector says, anew until that is live no more. */
export async function follow(shown, address, selector) {
  for (;;) {
    const now = (await fetched(address, selector)).querySelector(selector);
    shown.replaceChildren(...now.childNodes);
    if (!("live" in now.dataset)) return;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Show what a part of another page says, in the one with the same id. A live region that says the same already stays
 * as it is: it would be read again. */
export function renew(part) {
  const shown = part && document.getElementById(part.id);
  if (shown && shown.innerHTML !== part.innerHTML) shown.replaceChildren(...part.childNodes);
}

/** Return the path of a page of the console. */
export function page(path) {
  return `${root}/console${path}`;
}

/** Return an element with attributes and children; text stays text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

// What is under way is followed to its end, which has more to show.
for (const shown of document.querySelectorAll("[data-live]")) {
  follow(shown, window.location.href, `#${CSS.escape(shown.id)}`).then(() => window.location.reload());
}

// Questions before what cannot be undone. Without scripts the page that follows asks.
for (const form of document.querySelectorAll("form[data-confirm]")) {
  form.addEventListener("submit", (event) => {
    if (!window.confirm(form.dataset.confirm)) event.preventDefault();
  });
}
