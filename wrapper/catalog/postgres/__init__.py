"""The catalogue on PostgreSQL."""
