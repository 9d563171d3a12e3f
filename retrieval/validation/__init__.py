"""`rag-wrapper validate`: check whether a service finds what its gate says it must."""
