// What all pages share: asking the service with the rights of this session.

/** The text that requests of this session's pages send along. */
export const token = document.querySelector('meta[name="form-token"]').content;
/** The path below which the service is, empty for the root of its host. */
export const root = document.querySelector('meta[name="root"]').content;

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

// Questions before what cannot be undone. Without scripts the page that follows asks.
for (const form of document.querySelectorAll("form[data-confirm]")) {
  form.addEventListener("submit", (event) => {
    if (!window.confirm(form.dataset.confirm)) event.preventDefault();
  });
}
