"""`POST /api/chat`: answers made from search results, and the history of conversations."""
