// What LangChain's packages for OpenAI in JavaScript ask, which n8n and Flowise are made of.
import assert from "node:assert/strict";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";

const { OPENAI_BASE_URL: baseURL, OPENAI_API_KEY: apiKey, COLLECTION: collection } = process.env;
const configuration = { baseURL };
const question = "How long are backups kept?";

const embeddings = new OpenAIEmbeddings({ model: "all-MiniLM-L6-v2", apiKey, configuration });
const vectors = await embeddings.embedDocuments(["Backups are kept for thirty days.", "Coffee is at nine."]);
const near = await embeddings.embedQuery(question);
const [one, other] = vectors.map((vector) => vector.reduce((sum, number, place) => sum + number * near[place], 0));
assert.ok(one > other);

const modelKwargs = { vector_store_ids: [collection] };
const chat = new ChatOpenAI({ model: "rag", apiKey, configuration, modelKwargs });
assert.equal((await chat.invoke(question)).content, "So it is.");
const words = [];
for await (const part of await chat.stream(question)) words.push(part.content);
assert.equal(words.join(""), "So it is.");
