"""The figures of a soak as a picture that can be read in light and dark."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from benchmarks.soak.sampling import FIGURES, Sample

WIDTH, HEIGHT, LEFT, GAP = 720, 110, 90, 34
STYLE = """text{font:12px sans-serif;fill:#333}.line{fill:none;stroke:#0b5ed7;stroke-width:1.5}
.axis{fill:none;stroke:#999;stroke-width:1}.kill{stroke:#b02a37;stroke-width:1;opacity:.5}
@media(prefers-color-scheme:dark){text{fill:#ddd}.line{stroke:#6ea8fe}.kill{stroke:#ea868f}}"""


def plot(samples: Sequence[Sample]) -> str:
    """Return an SVG with a plot for each figure over the hours; red lines are kills."""
    hours = samples[-1].at_seconds / 3600
    height = (HEIGHT + GAP) * len(FIGURES) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}" role="img" '
        f'aria-label="Memory, open files, threads and disk of the service over {hours:.1f} hours of mixed load">',
        f"<style>{STYLE}</style>",
    ]
    for row, (field, figure) in enumerate(FIGURES.items()):
        top = GAP / 2 + row * (HEIGHT + GAP)
        parts += _panel(samples, field, figure.unit, top)
    parts.append(f'<text x="{LEFT + WIDTH}" y="{height - 8}" text-anchor="end">{hours:.1f} hours</text></svg>\n')
    return "\n".join(parts)


def _panel(samples: Sequence[Sample], field: str, unit: str, top: float) -> list[str]:
    values = [getattr(each, field) for each in samples]
    highest = max(values) * 1.1 or 1
    end = samples[-1].at_seconds or 1

    def place(each: Sample) -> float:
        return LEFT + each.at_seconds / end * WIDTH

    kills = [after for before, after in itertools.pairwise(samples) if after.kills > before.kills]
    points = " ".join(
        f"{place(each):.1f},{top + HEIGHT - value / highest * HEIGHT:.1f}"
        for each, value in zip(samples, values, strict=True)
    )
    bottom = top + HEIGHT
    name = field.removesuffix("_mb").replace("_", " ")
    return [
        *(f'<path class="kill" d="M{place(each):.1f} {top}V{bottom}"/>' for each in kills),
        f'<path class="axis" d="M{LEFT} {top}V{bottom}H{LEFT + WIDTH}"/>',
        f'<polyline class="line" points="{points}"/>',
        f'<text x="{LEFT - 6}" y="{top + 12}" text-anchor="end">{highest:,.0f} {unit}</text>',
        f'<text x="{LEFT - 6}" y="{bottom}" text-anchor="end">{name}</text>',
    ]
