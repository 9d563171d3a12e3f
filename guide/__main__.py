"""Build the guide, for `make docs`."""

from __future__ import annotations

import argparse
from pathlib import Path

from guide.building import SITE, BuildError, build


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m guide", description=__doc__)
    parser.add_argument("--into", type=Path, default=SITE, help="the folder of the finished site, which is replaced")
    into = parser.parse_args().into
    try:
        pages = build(into)
    except BuildError as error:
        raise SystemExit(str(error)) from None
    print(f"{into}: {pages} pages, every link leads somewhere, and nothing is loaded from another host")


if __name__ == "__main__":
    main()
