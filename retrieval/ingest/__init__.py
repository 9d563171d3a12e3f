"""Taking texts in: sources, drafts, and the one way to store a document as a whole."""
