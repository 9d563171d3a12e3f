"""What changed in a collection since one of its revisions."""
