"""Keeping the vector index equal to the catalogue: applying, checking, rebuilding, adopting."""
