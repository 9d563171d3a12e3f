"""Bodies, query strings and answers of the storage proxy, by subject."""
