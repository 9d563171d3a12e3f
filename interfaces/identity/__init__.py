"""Users of an identity provider: whether a bearer token is one of its tokens, and what its bearer may do here."""
