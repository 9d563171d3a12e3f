"""The storage proxy's own values: what its catalogue knows, its store returns and `schemas/wire/storage` spells."""
