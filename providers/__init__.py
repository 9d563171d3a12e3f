"""Other services behind one contract: vector stores, embedding models and chat models."""
