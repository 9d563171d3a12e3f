"""Texts letter for letter: which of them may have a part."""
