"""Rule documents: `POST /api/rag/documents:batch` and `POST /api/rag/retrieve`."""
