"""The rooms of the product let a newcomer find the way: few modules in each, short, and told apart by name."""

import ast
import statistics
import subprocess
import sys
from collections import defaultdict
from itertools import combinations
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PACKAGES = ("schemas", "wrapper", "providers", "registry", "retrieval", "interfaces")
MAX_MODULES = 20
MAX_LINES = 400
MAX_MEDIAN_LINES = 120
EXCEPTIONS = 0.05
"""Nobody rewrites innocent code for a count."""
FAMILIES = (
    {"schemas.contracts", "schemas.wire", "schemas.settings"},  # one subject: its values, its wire, its settings
    {"providers.chat", "providers.embeddings", "providers.rerank"},  # one vendor's protocol
    {"wrapper.catalog.sqlite", "wrapper.catalog.postgres"},  # one job for different databases
    {"interfaces.web", "interfaces.mcp"},  # one subject through different interfaces
    {"interfaces.chroma", "interfaces.openai"},  # one job for different protocols
    {"schemas.wire.chroma", "schemas.wire.openai"},
)
"""Neighbouring rooms in which one name means the same thing. Rooms of providers need no line here: each folder of
`providers/` that holds a `provider.py` does one job for its own service, or tests that job."""


def modules(*folders):
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return sorted(path for name in set(tracked) if name.endswith(".py") and (path := PROJECT / name).is_file())


PRODUCT = modules(*PACKAGES)
EVERYTHING = modules(".")


def dotted(path):
    return ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")


def lines(path):
    return len(path.read_text().splitlines())


def test_hardly_any_folder_holds_more_modules_than_a_reader_can_take_in():
    folders = defaultdict(list)
    for path in EVERYTHING:
        folders[path.parent].append(path.name)
    full = {str(folder): len(names) for folder, names in folders.items() if len(names) > MAX_MODULES}
    assert len(full) <= EXCEPTIONS * len(folders), full


def test_hardly_any_module_is_long():
    long = {dotted(path): lines(path) for path in EVERYTHING if lines(path) > MAX_LINES}
    assert len(long) <= EXCEPTIONS * len(EVERYTHING), long


def test_most_modules_are_short():
    assert statistics.median(lines(path) for path in PRODUCT if path.name != "__init__.py") <= MAX_MEDIAN_LINES


def test_no_module_is_named_like_one_of_the_standard_library():
    names = {path: path.parent.name if path.name == "__init__.py" else path.stem for path in EVERYTHING}
    own = {path for path in EVERYTHING if path.stem == "__main__"}
    assert [dotted(path) for path in names if names[path] in sys.stdlib_module_names and path not in own] == []


def shared_names(paths):
    """Return the names that neighbouring rooms share although they mean different things there, by the two rooms."""
    rooms = defaultdict(lambda: defaultdict(set))
    for path in paths:
        if path.name != "__init__.py":
            rooms[path.parent.parent][path.parent].add(path.stem)
    providers = {dotted(room) for room, names in rooms[PROJECT / "providers"].items() if "provider" in names}
    return {
        (dotted(first), dotted(second)): names
        for neighbours in rooms.values()
        for first, second in combinations(sorted(neighbours), 2)
        if first.parent != PROJECT
        and not any({dotted(first), dotted(second)} <= family for family in (*FAMILIES, providers))
        and (names := neighbours[first] & neighbours[second])
    }


def test_neighbouring_rooms_share_no_name_unless_it_means_the_same():
    assert shared_names(PRODUCT) == {}


def test_a_name_that_means_two_things_is_found_and_providers_are_free_to_use_the_same():
    free, shared = ("provider.py", "client.py"), ("provider.py", "network.py")
    assert shared_names([*PRODUCT, *(PROJECT / "providers/another" / file for file in free)]) == {}
    found = shared_names([*PRODUCT, *(PROJECT / "providers/another" / file for file in shared)])
    assert set(found) == {("providers.another", "providers.outbound")}


def test_every_room_says_in_a_sentence_what_it_is_for():
    silent = [
        dotted(path)
        for path in PRODUCT
        if path.name == "__init__.py" and not (ast.get_docstring(ast.parse(path.read_text())) or "").strip()
    ]
    assert silent == []
