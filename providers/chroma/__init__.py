"""A Chroma server as a provider."""
