// A job that is under way, until it has ended.

import { ask, json } from "./console.js";
import { rows } from "./job_rows.js";

const shown = document.querySelector("#job");

for (;;) {
  const job = await json(await ask(`/api/jobs/${encodeURIComponent(shown.dataset.job)}`));
  document.querySelector("#files").replaceChildren(rows(job.files, job.collection));
  if (job.finished_at) {
    window.location.reload();
    break;
  }
  await new Promise((resolve) => setTimeout(resolve, 700));
}
