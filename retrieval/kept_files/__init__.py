"""Files that clients keep here by the protocol of OpenAI, and what they say of collections as vector stores."""
