"""What people judged relevant, and how well the search finds it: by `rag-wrapper bench`, or in a running service."""
