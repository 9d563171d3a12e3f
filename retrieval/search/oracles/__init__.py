"""The ways to find documents for a question: by meaning, by words, and in notes."""
