"""Chroma's protocol as JSON: its collections, its records and its errors."""
