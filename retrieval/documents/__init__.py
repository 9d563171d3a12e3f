"""Text documents by source and path: `POST /api/rag/ingest` and `POST /api/rag/search`."""
