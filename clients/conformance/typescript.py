"""The TypeScript client as people have it: packed, installed into empty projects, and imported as ESM, as CommonJS and by
TypeScript."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.clients.typescript_client import DESCRIPTION, copy_sources

MODULE = """
const {{ documents }} = await main();
async function main() {{
  {load}
  const client = new RagWrapper({{ url: process.env.RAG_TEST_URL }});
  await client.collections.create({{ name: "{name}" }});
  const collection = client.collection("{name}");
  await collection.write([{{ id: "a", text: "One.", embedding: new Float32Array([1, 2]) }}]);
  const page = decodeEmbeddings(await collection.page({{ include: ["embedding"] }}));
  await collection.delete();
  return page;
}}
if (documents[0].embedding[1] !== 2) throw new Error("another embedding");
"""
ESM = MODULE.format(
    load='const { RagWrapper, decodeEmbeddings } = await import("rag-wrapper-client");', name="packed-esm"
)
COMMONJS = "(async () => {{{}}})();".format(
    MODULE.format(load='const { RagWrapper, decodeEmbeddings } = require("rag-wrapper-client");', name="packed-cjs")
)
TYPED = """
import { RagWrapper, type StoredDocument } from "rag-wrapper-client";
const client = new RagWrapper({ url: "http://127.0.0.1:5006" });
export async function first(): Promise<StoredDocument | undefined> {
  for await (const document of client.collection("x").list({ where: { year: { $gte: 2025 } } })) return document;
  return undefined;
}
"""
STRICT = ["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--target", "ES2022"]
COMPILERS = ("typescript@5.4.5", "typescript@5.9.3", "typescript@7.0.2")


def packed(directory: Path) -> Path:
    """Return the client as `npm pack` makes it, from a copy of its sources."""
    project = directory / "typescript-client"
    copy_sources(project)
    environ = {**os.environ, "RAG_WRAPPER_DESCRIPTION": str(DESCRIPTION)}
    for command in (["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], ["npm", "pack", "--loglevel=error"]):
        subprocess.run(command, cwd=project, env=environ, check=True, capture_output=True, text=True)
    [package] = project.glob("*.tgz")
    return package


def steps(package: Path, directory: Path, url: str) -> dict[str, tuple[list[str], Path]]:
    """Return what is run, by its name: the command and the folder that it is run in."""
    found: dict[str, tuple[list[str], Path]] = {}
    node = ["env", f"RAG_TEST_URL={url}", "node"]
    for kind, suffix, text in (("module", "mjs", ESM), ("commonjs", "cjs", COMMONJS)):
        project = _empty_project(directory / f"typescript-{kind}", package, kind)
        (project / f"main.{suffix}").write_text(text)
        (project / "typed.ts").write_text(TYPED)
        found[f"TypeScript client: imported as {kind}"] = ([*node, f"main.{suffix}"], project)
        for compiler in COMPILERS:
            tsc = ["npx", "--yes", "--package", compiler, "--", "tsc", *STRICT, "typed.ts"]
            for what, options in (
                (
                    "Node",
                    ["--module", "NodeNext", "--moduleResolution", "NodeNext", "--lib", "ES2022", "--types", "node"],
                ),
                (
                    "browsers",
                    [
                        "--module",
                        "ESNext",
                        "--moduleResolution",
                        "Bundler",
                        "--lib",
                        "ES2022,DOM",
                        "--typeRoots",
                        "nowhere",
                    ],
                ),
            ):
                found[f"TypeScript client: types of a {kind} for {what} by {compiler}"] = ([*tsc, *options], project)
    return found


def _empty_project(folder: Path, package: Path, kind: str) -> Path:
    folder.mkdir()
    (folder / "package.json").write_text(json.dumps({"private": True, "type": kind}))
    command = ["npm", "install", "--no-audit", "--no-fund", str(package), "@types/node@20"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return folder
