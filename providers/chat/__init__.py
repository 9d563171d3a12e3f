"""Chat models as providers."""
