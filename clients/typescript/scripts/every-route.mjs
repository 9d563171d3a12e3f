// Writes tests/generated/every-route.ts: a call of every route of the description, which tsc checks and the tests make.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { parse } from "yaml";

const METHODS = ["get", "put", "post", "delete", "patch"];
const DESCRIPTION = process.env.RAG_WRAPPER_DESCRIPTION ?? new URL("../../../openapi.yaml", import.meta.url);
const GENERATED = new URL("../tests/generated/", import.meta.url);

const description = parse(await readFile(DESCRIPTION, "utf8"), { maxAliasCount: -1, merge: true });
const calls = Object.entries(description.paths).flatMap(([path, item]) =>
  METHODS.filter((method) => method in item).map((method) => called(path, item, method)),
);
await mkdir(GENERATED, { recursive: true });
await writeFile(
  new URL("every-route.ts", GENERATED),
  `import type { Answer, RagWrapper } from "../../src/index.js";

export const EVERY_ROUTE: Record<string, (client: RagWrapper) => Promise<Answer<unknown>>> = {
${calls.join("\n")}
};
`,
);

function called(path, item, method) {
  const operation = item[method];
  const parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map(resolved);
  const named = (place) => parameters.filter((each) => each.in === place && (place === "path" || each.required));
  const parts = ["path", "query"].flatMap((place) => {
    const values = named(place).map((each) => `${JSON.stringify(each.name)}: "nowhere" as never`);
    return values.length > 0 ? [`${place}: { ${values.join(", ")} }`] : [];
  });
  if (operation.requestBody !== undefined) {
    const isJson = "application/json" in resolved(operation.requestBody).content;
    parts.push(`body: ${isJson ? "{} as never" : "new Uint8Array()"}`);
  }
  const options = parts.length > 0 ? `, { ${parts.join(", ")} }` : "";
  const [verb, text] = [method.toUpperCase(), JSON.stringify(path)];
  return `  ${JSON.stringify(`${verb} ${path}`)}: (client) => client.request("${verb}", ${text}${options}),`;
}

function resolved(part) {
  if (!("$ref" in part)) return part;
  return part.$ref
    .slice(2)
    .split("/")
    .reduce((whole, key) => whole[key.replaceAll("~1", "/").replaceAll("~0", "~")], description);
}
