"""Passages as every interface shows them: where they stand, and the words of the question in them."""
