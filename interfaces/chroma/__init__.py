"""The protocol of Chroma's own clients, `/api/v2`: vectors in and out, on the storage that every interface asks."""
