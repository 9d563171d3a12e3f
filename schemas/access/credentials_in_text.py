"""Credentials in texts that are written down: keys of this service, and tokens of identity providers.

They get there by mistake, in a path or as the id of a request.
"""

from __future__ import annotations

import re

KEY = re.compile(r"rw_([a-z0-9]{8})_[A-Za-z0-9_-]{43}")
"""The text of a key, with its id."""
# A run of these characters is tried from its beginning only and never a second time, so a long one takes no longer.
_TOKEN = re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]++\.[A-Za-z0-9_-]++\.[A-Za-z0-9_-]*+")
CUT = "…"


def without_credentials(text: str) -> str:
    """Return a text with the secret parts of keys, and tokens, replaced by `…`. The id of a key stays."""
    if "rw_" in text:
        text = KEY.sub(rf"rw_\1_{CUT}", text)
    return _TOKEN.sub(f"eyJ{CUT}", text) if "eyJ" in text else text
