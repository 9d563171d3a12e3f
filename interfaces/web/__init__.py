"""The HTTP routes above the storage proxy."""
