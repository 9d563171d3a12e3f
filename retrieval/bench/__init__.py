"""`rag-wrapper bench`: measure how well the search finds what people judged relevant."""
