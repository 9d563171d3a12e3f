/** A page as the service answers it. */
export type Page = { next_cursor?: string | null } | { nextCursor: string | null };

/** Go through all pages: `ask` gets the cursor of each, undefined for the first. */
export async function* pagesOf<T extends Page>(
  ask: (cursor: string | undefined) => Promise<T>,
): AsyncGenerator<T, void, undefined> {
  let cursor: string | undefined;
  do {
    const page = await ask(cursor);
    yield page;
    cursor = ("nextCursor" in page ? page.nextCursor : page.next_cursor) ?? undefined;
  } while (cursor !== undefined);
}

/** Go through the items of all pages. */
export async function* itemsOf<T, P>(
  pages: AsyncIterable<P>,
  of: (page: P) => readonly T[],
): AsyncGenerator<T, void, undefined> {
  for await (const page of pages) yield* of(page);
}
