"""Everything that works on text: ingesting, searching, and the contracts built on both."""
