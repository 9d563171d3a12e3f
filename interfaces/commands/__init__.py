"""The commands of `rag-wrapper`, the demo, and what they share."""
