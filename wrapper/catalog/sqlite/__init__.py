"""The catalogue on SQLite."""
