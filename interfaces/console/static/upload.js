// Files that are dropped or chosen: sent in batches, then followed until they are stored.

import { element, follow, page, root, token } from "./console.js";

const BATCH_FILES = 50;
const BATCH_BYTES = 50_000_000;
const form = document.querySelector("#upload");
const shown = document.querySelector("#uploads");

if (form) {
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const input of form.querySelectorAll('input[type="file"]')) {
    input.addEventListener("change", () => {
      bring([...input.files].map((file) => ({ file, name: file.webkitRelativePath || file.name })));
      input.value = "";
    });
  }
  for (const name of ["dragenter", "dragover"]) {
    form.addEventListener(name, (event) => {
      event.preventDefault();
      form.classList.add("over");
    });
  }
  form.addEventListener("dragleave", () => form.classList.remove("over"));
  form.addEventListener("drop", async (event) => {
    event.preventDefault();
    form.classList.remove("over");
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
    bring((await Promise.all(entries.map((entry) => filesOf(entry)))).flat());
  });
}

async function filesOf(entry, folder = "") {
  const name = folder + entry.name;
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    return [{ file, name }];
  }
  const reader = entry.createReader();
  const found = [];
  // A reader gives a hundred entries at a time.
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) break;
    found.push(...some);
  }
  return (await Promise.all(found.map((each) => filesOf(each, `${name}/`)))).flat();
}

async function bring(found) {
  const files = found.filter((each) => !isSecret(each));
  const secrets = found.filter(isSecret).map((each) => each.name);
  if (secrets.length) {
    const said = `Left out, as they may hold secrets (chosen by themselves they are taken): ${secrets.join(", ")}`;
    shown.prepend(element("p", { class: "small text-danger-emphasis" }, said));
  }
  let batch = [];
  let bytes = 0;
  for (const each of files) {
    if (batch.length === BATCH_FILES || (batch.length && bytes + each.file.size > BATCH_BYTES)) {
      await send(batch);
      [batch, bytes] = [[], 0];
    }
    batch.push(each);
    bytes += each.file.size;
  }
  if (batch.length) await send(batch);
}

// Of a folder, files that usually hold passwords or keys.
function isSecret({ name }) {
  return name.includes("/") && new RegExp(form.dataset.secrets, "i").test(name.split("/").pop());
}

async function send(batch) {
  const progress = element("progress", { class: "w-100", max: "1", value: "0", "aria-label": "Sent" });
  const said = element("div", { class: "small" }, `${batch.length} ${batch.length === 1 ? "file" : "files"}`, progress);
  const refused = element("ul", { class: "small list-unstyled text-danger-emphasis mb-0" });
  shown.prepend(element("section", { class: "card card-body mb-2" }, said, refused));
  try {
    const answer = await upload(batch, (share) => { progress.value = share; });
    const faults = answer.files.filter((each) => each.status === "refused");
    refused.replaceChildren(...faults.map((each) => element("li", {}, `${each.name}: ${each.message}`)));
    if (answer.job) await follow(said, page(`/documents/jobs/${encodeURIComponent(answer.job.id)}`), "#job");
    else progress.remove();
  } catch (error) {
    said.replaceChildren(element("p", { class: "text-danger-emphasis mb-0", role: "alert" }, error.message));
  }
}

function upload(batch, onProgress) {
  const body = new FormData();
  for (const { file, name } of batch) body.append("file", file, name);
  const parameters = new URLSearchParams();
  for (const name of ["collection", "tags"]) {
    const value = form.elements[name].value.trim();
    if (value) parameters.set(name, value);
  }
  // An XMLHttpRequest, because fetch does not tell how much is sent.
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `${root}/api/documents${parameters.size ? `?${parameters}` : ""}`);
    request.setRequestHeader("X-Console-Token", token);
    request.responseType = "json";
    request.upload.addEventListener("progress", (event) => onProgress(event.total ? event.loaded / event.total : 0));
    request.addEventListener("error", () => reject(new Error("The service cannot be reached")));
    request.addEventListener("load", () => {
      if (request.status < 300) resolve(request.response);
      else reject(new Error(request.response?.message ?? `The service answered ${request.status}`));
    });
    request.send(body);
  });
}
