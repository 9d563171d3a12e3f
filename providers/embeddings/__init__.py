"""Embedding models as providers."""
