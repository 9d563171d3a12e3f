/** An embedding as the client takes it: a string is base64 of little-endian float32, as OpenAI returns it. */
export type Vector = readonly number[] | Float32Array | string;

/** An answer in which every embedding is a `Float32Array`. */
export type Decoded<T> = T extends readonly (infer Item)[]
  ? Decoded<Item>[]
  : T extends object
    ? { [Key in keyof T]: Key extends "embedding" ? Float32Array | Extract<T[Key], undefined> : Decoded<T[Key]> }
    : T;

const IS_LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
const BYTES_AT_ONCE = 0x8000;

/** Return a vector as base64 of little-endian float32: a quarter of its bytes as JSON. */
export function encodeEmbedding(vector: Vector): string {
  if (typeof vector === "string") return vector;
  const numbers = vector instanceof Float32Array ? vector : Float32Array.from(vector);
  return toBase64(IS_LITTLE_ENDIAN ? new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength) : swapped(numbers));
}

/** Return the numbers of an embedding as the service answers it, in JSON or base64. */
export function decodeEmbedding(embedding: readonly number[] | string): Float32Array {
  if (typeof embedding !== "string") return Float32Array.from(embedding);
  const bytes = fromBase64(embedding);
  if (IS_LITTLE_ENDIAN) return new Float32Array(bytes.buffer, 0, bytes.byteLength / 4);
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.byteLength / 4 }, (_, place) => view.getFloat32(place * 4, true));
}

/**
 * Return an answer, or a document of it, with every embedding as a `Float32Array`.
 *
 * Embeddings are there when `include` asked for them, and in exports. Metadata stays as it is.
 */
export function decodeEmbeddings<T>(answer: T): Decoded<T> {
  return decoded(answer) as Decoded<T>;
}

function decoded(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(decoded);
  if (typeof value !== "object" || value === null) return value;
  const found = Object.entries(value).map(([key, part]) => {
    if (key === "embedding" && (typeof part === "string" || Array.isArray(part))) return [key, decodeEmbedding(part)];
    return [key, HOLDS_DOCUMENTS.has(key) ? decoded(part) : part];
  });
  return Object.fromEntries(found);
}

/** Where an answer has documents. Everything else, such as metadata, may have any names. */
const HOLDS_DOCUMENTS = new Set(["documents", "results", "groups", "answers"]);

function swapped(numbers: Float32Array): Uint8Array {
  const view = new DataView(new ArrayBuffer(numbers.length * 4));
  numbers.forEach((number, place) => view.setFloat32(place * 4, number, true));
  return new Uint8Array(view.buffer);
}

/** Buffer, where there is one: much faster than btoa. */
interface NodeBuffer {
  from(source: ArrayBufferLike, offset: number, length: number): { toString(encoding: "base64"): string };
  from(source: string, encoding: "base64"): Uint8Array;
}
const NODE_BUFFER = (globalThis as { Buffer?: NodeBuffer }).Buffer;

function toBase64(bytes: Uint8Array): string {
  if (NODE_BUFFER) return NODE_BUFFER.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  let text = "";
  for (let start = 0; start < bytes.length; start += BYTES_AT_ONCE) {
    text += String.fromCharCode(...bytes.subarray(start, start + BYTES_AT_ONCE));
  }
  return btoa(text);
}

/** Return the bytes in a buffer of their own, which begins with them: float32 must be aligned. */
function fromBase64(text: string): Uint8Array {
  if (NODE_BUFFER) return Uint8Array.from(NODE_BUFFER.from(text, "base64"));
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
