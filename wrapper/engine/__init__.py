"""Chroma, the vector index: its client, and the ownership of its data."""
