// Measurements that are under way, until they have ended.

import { ask, json } from "./console.js";

for (const shown of document.querySelectorAll("[data-running]")) follow(shown);

async function follow(shown) {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, 700));
    const { status, progress } = await json(await ask(`/api/bench/${encodeURIComponent(shown.dataset.running)}`));
    if (status !== "running") break;
    shown.textContent = `${status}, ${progress.done} of ${progress.searches} searches`;
  }
  window.location.reload();
}
