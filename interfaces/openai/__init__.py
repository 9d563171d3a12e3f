"""The protocol of OpenAI below `/v1`, for every client of that, on the models and the search of the service."""
