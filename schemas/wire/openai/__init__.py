"""OpenAI's protocol as JSON."""
