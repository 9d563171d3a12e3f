"""Folders that `rag-wrapper watch` keeps in sync with a collection, as it reports them."""
