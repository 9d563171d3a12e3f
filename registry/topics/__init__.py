"""The topic of a conversation, and which of its texts to search with."""
