"""Qdrant as a provider."""
