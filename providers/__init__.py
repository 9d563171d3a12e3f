"""Other services behind one contract: vector stores, and models that embed, chat and rerank."""
