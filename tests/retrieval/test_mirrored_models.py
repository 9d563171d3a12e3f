"""A mirror of a collection that gets the vectors of another model."""

import pytest

from schemas.errors import UnavailableError
from tests.retrieval.mirrors import Target, assert_equal, caught_up, filled_source, mirror_of


@pytest.fixture
def source():
    return filled_source()


@pytest.fixture
def target():
    return Target()


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_copy_never_has_vectors_of_another_model_than_it_names(source, target, is_killed, monkeypatch):
    seen = set()

    def look(act):
        def done(*args, **options):
            answer = act(*args, **options)
            copy = target.collections["copy"]
            model = copy["metadata"].get("embedding_model")
            seen.update((model, embedding[0]) for _, embedding in copy["documents"].values())
            return answer

        return done

    for name in ("add_lines", "delete_documents", "empty_collection", "replace_metadata"):
        monkeypatch.setattr(target, name, look(getattr(target, name)))
    source.switch("old", "A")
    mirror = mirror_of(source, target)
    caught_up(mirror)
    source.at_once = 1
    source.switch("new", "B")
    for _ in range(3):
        mirror.step()
        if is_killed:
            mirror = mirror_of(source, target)
    assert set(target.collections["copy"]["documents"]) < {"a", "b", "c"}
    caught_up(mirror)
    assert_equal(source, target)
    assert seen == {("old", "A"), ("new", "B")}


@pytest.mark.parametrize("dies_in", ["replace_metadata", "empty_collection"])
def test_a_mirror_that_dies_while_it_empties_its_copy_begins_anew(source, target, dies_in, monkeypatch):
    source.switch("old", "A")
    caught_up(mirror_of(source, target))
    source.switch("new", "B")
    act, turns = getattr(target, dies_in), [UnavailableError("killed")]

    def die(*args, **options):
        act(*args, **options)
        if turns:
            raise turns.pop()

    monkeypatch.setattr(target, dies_in, die)
    with pytest.raises(UnavailableError):
        mirror_of(source, target).step()
    monkeypatch.setattr(target, dies_in, act)
    caught_up(mirror_of(source, target))
    assert_equal(source, target)


@pytest.mark.parametrize("begins_anew", [False, True])
@pytest.mark.parametrize("new", ["new", None])
def test_nothing_is_stored_of_a_source_that_gets_other_vectors_between_two_requests(
    source, target, monkeypatch, new, begins_anew
):
    source.switch("old", "A")
    if begins_anew:
        caught_up(mirror_of(source, target))
        source.delete("b")
        source.forget()
    changes, switches = source.changes, [(new, "B")]

    def changes_later(*args, **options):
        if switches and not args[1]:
            source.switch(*switches.pop())
        return changes(*args, **options)

    monkeypatch.setattr(source, "changes", changes_later)
    mirror = mirror_of(source, target)
    while switches:
        assert mirror.step().more
    copy = target.collections["copy"]
    assert copy["metadata"]["embedding_model"] == "old"
    assert {embedding for _, embedding in copy["documents"].values()} <= {"AA"}
    caught_up(mirror)
    assert_equal(source, target)
