// Writes src/generated/ from the description of the wire: its types, and what the client has to know of its routes when
// it runs. RAG_WRAPPER_DESCRIPTION names another openapi.yaml than that of the repository.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";
import { parse } from "yaml";

const METHODS = ["get", "put", "post", "delete", "patch"];
const DESCRIPTION = process.env.RAG_WRAPPER_DESCRIPTION ?? new URL("../../../openapi.yaml", import.meta.url);
const GENERATED = new URL("../src/generated/", import.meta.url);
const TEXTS = ["text/plain", "text/html"];
const HEAD = "// Made of openapi.yaml by scripts/generate.mjs.\n\n";
/** Schemas that are spelt by hand, since their types would be less exact, by the module that has them. */
const BY_HAND = { Embedding: ["Vector", "../embeddings.js"], Filter: ["Filter", "../where.js"] };
/** What a schema says of the kind of its values. A schema that says none of it is a condition, which no type can state. */
const KINDS = ["type", "$ref", "properties", "items", "enum", "const", "allOf", "anyOf", "oneOf", "additionalProperties"];

const description = parse(await readFile(DESCRIPTION, "utf8"), { maxAliasCount: -1, merge: true });
await mkdir(GENERATED, { recursive: true });
await writeFile(new URL("description.ts", GENERATED), HEAD + (await types()));
await writeFile(new URL("routes.ts", GENERATED), HEAD + routes());

/** The types of all routes, by openapi-typescript. */
async function types() {
  const { factory, SyntaxKind } = ts;
  const anyObject = factory.createTypeReferenceNode("Record", [
    factory.createKeywordTypeNode(SyntaxKind.StringKeyword),
    factory.createKeywordTypeNode(SyntaxKind.UnknownKeyword),
  ]);
  const tree = await openapiTS(withoutConditions(description), {
    // What has a default may be left out of a request.
    defaultNonNullable: false,
    transform(schema, { path }) {
      const [name] = BY_HAND[path?.match(/^#\/components\/schemas\/(\w+)$/)?.[1]] ?? [];
      if (name !== undefined) return factory.createTypeReferenceNode(name);
      return isAnyObject(schema) ? (isNullable(schema) ? orNull(anyObject) : anyObject) : undefined;
    },
  });
  const imports = Object.values(BY_HAND).map(([name, module]) => `import type { ${name} } from "${module}";\n`);
  return `${imports.join("")}\n${astToString(tree)}`;
}

/** The description without alternatives that say only what must be present, which would become `unknown`. */
function withoutConditions(part) {
  if (Array.isArray(part)) return part.map(withoutConditions);
  if (typeof part !== "object" || part === null) return part;
  const isCondition = (key, value) =>
    (key === "anyOf" || key === "oneOf") &&
    Array.isArray(value) &&
    value.every((each) => !KINDS.some((kind) => kind in each));
  const kept = Object.entries(part).filter(([key, value]) => !isCondition(key, value));
  return Object.fromEntries(kept.map(([key, value]) => [key, withoutConditions(value)]));
}

/** Whether a schema takes every object: openapi-typescript would make a type of it that takes none. */
function isAnyObject(schema) {
  const kinds = [schema.type].flat();
  const says = ["properties", "additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "enum", "const", "$ref"];
  return kinds.includes("object") && kinds.every((kind) => kind === "object" || kind === "null") && !says.some((word) => word in schema);
}

function isNullable(schema) {
  return [schema.type].flat().includes("null");
}

function orNull(type) {
  return ts.factory.createUnionTypeNode([type, ts.factory.createLiteralTypeNode(ts.factory.createNull())]);
}

/** What each route takes and answers, as types that need no computing, and which writes take an Idempotency-Key. */
function routes() {
  const once = [];
  const byMethod = METHODS.map((method) => {
    const lines = [];
    for (const [path, item] of Object.entries(description.paths)) {
      if (!(method in item)) continue;
      const operation = item[method];
      const parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map(resolved);
      if (parameters.some((each) => each.name === "Idempotency-Key")) once.push(`${method.toUpperCase()} ${path}`);
      lines.push(`    ${JSON.stringify(path)}: { options: ${optionsOf(operation, parameters)}; answer: ${answerOf(operation)} };`);
    }
    return `  ${method.toUpperCase()}: {\n${lines.join("\n")}\n  };\n`;
  });
  return `import type { Bytes } from "../lines.js";
import type { SentBody } from "../transport.js";
import type { CallOptions, RawOptions } from "../typed.js";
import type { operations } from "./description.js";

/** By method and path: the options that a request has, and the body of its answer. */
export interface Routes {
${byMethod.join("")}}

/** The writes that take an Idempotency-Key. */
export const WRITES_ONCE = [
${once.map((route) => `  ${JSON.stringify(route)},\n`).join("")}] as const;
`;
}

function optionsOf(operation, parameters) {
  const of = `operations[${JSON.stringify(operation.operationId)}]`;
  const [inPath, inQuery] = ["path", "query"].map((place) => parameters.filter((each) => each.in === place));
  const isAsked = inQuery.some((each) => each.required);
  const parts = [];
  if (inPath.length > 0) parts.push(`path: ${of}["parameters"]["path"]`);
  if (inQuery.length > 0) parts.push(`query${isAsked ? "" : "?"}: NonNullable<${of}["parameters"]["query"]>`);
  const body = operation.requestBody === undefined ? undefined : resolved(operation.requestBody);
  let isRaw = false;
  if (body !== undefined) {
    const kinds = Object.keys(body.content);
    isRaw = kinds.some((kind) => kind !== "application/json");
    const json = `NonNullable<${of}["requestBody"]>["content"]["application/json"]`;
    const types = [...(kinds.includes("application/json") ? [json] : []), ...(isRaw ? ["SentBody"] : [])];
    parts.push(`body${body.required ? "" : "?"}: ${types.join(" | ")}`);
  }
  const needs = parts.some((part) => /^\w+: /.test(part));
  return `[options${needs ? "" : "?"}: { ${parts.map((part) => `${part}; `).join("")}} & ${isRaw ? "RawOptions" : "CallOptions"}]`;
}

function answerOf(operation) {
  const of = `operations[${JSON.stringify(operation.operationId)}]["responses"]`;
  const types = Object.entries(operation.responses)
    .filter(([status]) => status.startsWith("2"))
    .map(([status, response]) => {
      const kinds = Object.keys(resolved(response).content ?? {});
      if (kinds.length === 0) return "undefined";
      if (kinds.includes("application/json")) return `${of}[${status}]["content"]["application/json"]`;
      return kinds.some((kind) => TEXTS.includes(kind)) ? "string" : "Bytes";
    });
  return [...new Set(types)].join(" | ") || "unknown";
}

function resolved(part) {
  if (!("$ref" in part)) return part;
  return part.$ref
    .slice(2)
    .split("/")
    .reduce((whole, key) => whole[key.replaceAll("~1", "/").replaceAll("~0", "~")], description);
}
