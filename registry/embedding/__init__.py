"""Embed a question once: in batches, from memory, or from files that workers share."""
