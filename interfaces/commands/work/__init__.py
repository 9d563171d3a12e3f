"""The work of commands that need much of the product, which is imported when they are called, not for their help."""
