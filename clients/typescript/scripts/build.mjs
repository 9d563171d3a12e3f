// Builds dist/: the generated types, then the package as ESM and as CommonJS, each with its declarations.
import { spawnSync } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(new URL("..", import.meta.url));
const TSC = createRequire(import.meta.url).resolve("typescript/bin/tsc");

await rm(new URL("../dist", import.meta.url), { recursive: true, force: true });
run("scripts/generate.mjs");
run(TSC, "--project", "tsconfig.json");
run(TSC, "--project", "tsconfig.cjs.json");
await mkdir(new URL("../dist/cjs", import.meta.url), { recursive: true });
await writeFile(new URL("../dist/cjs/package.json", import.meta.url), '{"type": "commonjs"}\n');

function run(...command) {
  const { status } = spawnSync(process.execPath, command, { cwd: HERE, stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}
