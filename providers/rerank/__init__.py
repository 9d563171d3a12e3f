"""Reranking models as providers."""
