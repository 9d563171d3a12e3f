"""What the engine's record of a document has: all that the document has, or its id and its vector only."""

FULL, VECTORS = "full", "vectors"
ENGINE_RECORDS = (FULL, VECTORS)
