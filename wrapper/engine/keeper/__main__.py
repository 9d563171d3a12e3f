"""The entry point of `python -m wrapper.engine.keeper`."""

from __future__ import annotations

import sys

from wrapper.engine.keeper.keeper import main

sys.exit(main(sys.argv[1:]))
