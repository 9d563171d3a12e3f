"""The catalogue, in SQL: the truth about every document."""
