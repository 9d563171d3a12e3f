"""What is told of requests to operators: the spans of their work, and those of the last hour."""
