"""What the engine's record of a document has: all that the document has, or its id and its vector only."""

FULL, VECTORS = "full", "vectors"
ENGINE_RECORDS = (FULL, VECTORS)
AUTO = "auto"
"""The setting for new collections by which it depends on who can read what the engine has."""
NEW_RECORDS = (AUTO, *ENGINE_RECORDS)
