"""What the commands that ask and show share: the service to ask, the screen, and how passages look on it."""
