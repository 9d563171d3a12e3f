// What a program that asks a server writes down: a line of JSON for each step.
export const host = "127.0.0.1";
export const port = Number(process.env.CHROMA_PORT);
export const key = process.env.CHROMA_KEY;

/** Write down what `ask` answers. Numbers with a fraction are rounded: two indexes add in another order. */
export async function step(name, ask) {
  await told(name, ask, "FAILED");
}

/** Write down the class of what `ask` throws, which it should. */
export async function refused(name, ask) {
  await told(name, ask, "refused");
}

async function told(name, ask, failure) {
  let outcome;
  let said = "";
  try {
    outcome = JSON.stringify((await ask()) ?? null, plain);
  } catch (error) {
    outcome = `${failure} ${error.constructor.name}`;
    said = String(error.message).slice(0, 300);
  }
  console.log(JSON.stringify({ step: name, outcome, said }));
}

function plain(_, value) {
  if (typeof value === "number") return Math.round(value * 1e5) / 1e5;
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)));
}
