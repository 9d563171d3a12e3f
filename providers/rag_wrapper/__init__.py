"""Another rag-wrapper service as a provider, and the client that the command line uses too."""
