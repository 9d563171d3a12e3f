"""Child processes that answer questions, each within a limit of time: parsers, and what splits and embeds for jobs."""
