"""Who is asking: keys, how requests carry them, and the callers that they stand for."""
