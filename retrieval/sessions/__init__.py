"""Sessions, their notes, and the context of a project made from both."""
