"""A vector sent by Node as the guide shows it arrives unchanged."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from schemas.documents import parse_embedding
from schemas.errors import InvalidInputError

GUIDE = Path(__file__).parents[2] / "docs" / "api-guide.md"
VECTOR = "const vector = new Float32Array([9, 0.1, 0.2, 0.3]).subarray(1);"
"""A vector in the form in which libraries return it: a part of a longer buffer."""


@pytest.fixture
def node():
    found = shutil.which("node")
    if found is None:
        pytest.skip("Node is not installed: what the guide shows for it is not tried")
    return lambda code: (
        subprocess.run(
            [found, "-e", f"{VECTOR} process.stdout.write({code})"], capture_output=True, check=True, text=True
        ).stdout
    )


def test_base64_as_the_guide_shows_it_is_the_vector(node):
    (shown,) = re.findall(r"```js\n(Buffer\..*?)```", GUIDE.read_text(), re.DOTALL)
    assert parse_embedding(node(shown.strip())).tolist() == pytest.approx([0.1, 0.2, 0.3], rel=1e-7)


def test_a_bare_float32_array_is_refused_with_the_remedy(node):
    with pytest.raises(InvalidInputError, match=r"Array\.from\(vector\)"):
        parse_embedding(json.loads(node("JSON.stringify(vector)")))
    vector = parse_embedding(json.loads(node("JSON.stringify(Array.from(vector))")))
    assert vector.tolist() == pytest.approx([0.1, 0.2, 0.3], rel=1e-7)


def test_an_object_of_numbers_is_refused_with_the_remedy():
    with pytest.raises(InvalidInputError, match=r"Array\.from\(vector\)"):
        parse_embedding({"0": 0.1, "1": 0.2})
