// What the AI SDK asks: embeddings and the chat by OpenAI's protocol, and the tools by MCP.
import assert from "node:assert/strict";
import { createMCPClient } from "@ai-sdk/mcp";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { cosineSimilarity, embed, embedMany, generateText, streamText } from "ai";

const { OPENAI_BASE_URL: baseURL, OPENAI_API_KEY: apiKey, COLLECTION: collection } = process.env;
const headers = { Authorization: `Bearer ${apiKey}` };
const rag = createOpenAICompatible({ name: "ragWrapper", baseURL, apiKey });
const question = "How long are backups kept?";

const model = rag.embeddingModel("all-MiniLM-L6-v2");
const { embeddings } = await embedMany({ model, values: ["Backups are kept for thirty days.", "Coffee is at nine."] });
const { embedding, usage } = await embed({ model, value: question });
assert.equal(embedding.length, 384);
assert.ok(usage.tokens > 0);
assert.ok(cosineSimilarity(embedding, embeddings[0]) > cosineSimilarity(embedding, embeddings[1]));

const asked = (store) => ({
  model: rag("rag"),
  prompt: question,
  providerOptions: { ragWrapper: { vector_store_ids: [store] } },
  include: { responseBody: true },
});
const answered = await generateText(asked(collection));
assert.equal(answered.text, "So it is.");
assert.equal(answered.finishReason, "stop");
assert.equal(answered.response.body.rag.sources[0].title, "Backups");
await assert.rejects(generateText(asked("nowhere")), { statusCode: 404 });

const streamed = streamText(asked(collection));
const words = [];
for await (const word of streamed.textStream) words.push(word);
assert.ok(words.length > 1);
assert.equal(words.join(""), "So it is.");

const client = await createMCPClient({ transport: { type: "http", url: new URL("/mcp", baseURL).href, headers } });
const tools = await client.tools();
assert.ok("rag_query" in tools);
const { structuredContent, isError } = await tools.rag_query.execute(
  { query: question, limit: 1 },
  { toolCallId: "1", messages: [] },
);
assert.ok(!isError);
assert.match(JSON.stringify(structuredContent), /kept for 30 days/);
const refusal = await tools.rag_query.execute({ query: "" }, { toolCallId: "2", messages: [] });
assert.ok(refusal.isError);
await client.close();
