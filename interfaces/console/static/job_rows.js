// The files of a job as a table: what was read of each.

import { element, page } from "./console.js";

export function rows(files, collection) {
  return element(
    "table",
    { class: "table table-sm small mb-0" },
    element("thead", {}, element("tr", {}, ...["File", "Status", "Pages", "Passages", "What was noticed"].map((each) => element("th", { scope: "col" }, each)))),
    element("tbody", {}, ...files.map((each) => row(each, collection))),
  );
}

function row(file, collection) {
  const address = file.document_id && page(`/documents/of/${encodeURIComponent(collection)}?id=${encodeURIComponent(file.document_id)}`);
  const name = address ? element("a", { href: address }, file.name) : file.name;
  const noticed = [file.message, ...(file.warnings ?? [])].filter(Boolean).join(" ");
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, name),
    element("td", {}, file.status),
    element("td", {}, String(file.pages ?? "–")),
    element("td", {}, String(file.chunks ?? "–")),
    element("td", {}, noticed),
  );
}
