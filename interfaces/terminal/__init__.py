"""What the commands that show share: the screen, and how passages and answers look on it."""
