"""The external knowledge API of Dify: `POST /dify/retrieval`, on the search that every interface asks."""
