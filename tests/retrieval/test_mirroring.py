"""A mirror against two stores in memory that change, break off and forget, or get the vectors of another model."""

import orjson
import pytest

from retrieval import mirroring
from retrieval.mirroring import Mirror, SourceMissingError
from schemas.errors import ConflictError, UnavailableError
from tests.retrieval.mirrors import URL, Target, assert_equal, caught_up, filled_source, mirror_of


@pytest.fixture
def source():
    return filled_source()


@pytest.fixture
def target():
    return Target()


@pytest.fixture
def mirror(source, target):
    """A mirror that has copied all."""
    made = mirror_of(source, target)
    caught_up(made)
    return made


def test_a_copy_is_made_and_kept(source, target):
    source.metric = "l2"
    source.metadata = {"language": "de", "mirror": "of something else"}
    mirror = mirror_of(source, target)
    step = mirror.step()
    assert (step.stored, step.deleted, step.more, step.revision) == (3, 0, False, 4)
    assert target.collections["copy"]["metric"] == "l2"
    assert_equal(source, target)
    source.put("a", "new")
    source.delete("b")
    source.metadata = {"language": "en"}
    step = mirror.step(30)
    assert (step.stored, step.deleted) == (1, 1)
    assert source.asked[-1] == (4, 30)
    assert_equal(source, target)


def test_a_copy_is_taken_in_parts_by_whoever_goes_on(source, target):
    source.at_once = 1
    assert mirror_of(source, target).step().more
    source.delete("a")
    assert mirror_of(source, target).step().more
    caught_up(mirror_of(source, target))
    assert_equal(source, target)
    assert [since for since, _ in source.asked][:3] == [0, 2, 3]


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_a_cut_answer_told_of_and_is_deleted_meanwhile_is_deleted_in_the_copy(source, target, is_killed):
    source.cut_after = 2
    mirroring_now = mirror_of(source, target)
    with pytest.raises(UnavailableError):
        mirroring_now.step()
    target.add_lines("copy", [orjson.dumps({"id": "a", "text": "text of a", "metadata": {}, "embedding": "AA"})])
    source.delete("a")
    source.cut_after = None
    caught_up(mirror_of(source, target) if is_killed else mirroring_now)
    assert_equal(source, target)


@pytest.mark.parametrize("at_once", [1, 1000])
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_copy_that_begins_anew_keeps_what_it_has_until_it_knows_better(source, target, mirror, at_once, is_killed):
    source.delete("a")
    source.forget()
    source.put("d", "text of d")
    source.at_once = at_once
    step = mirror.step()
    assert (step.more, set(target.collections["copy"]["documents"])) == (True, {"a", "b", "c"})
    if at_once == 1:
        assert mirror.step().more
        assert "a" in target.collections["copy"]["documents"]
        source.delete("b")
    if is_killed:
        mirror = mirror_of(source, target)
    caught_up(mirror)
    assert_equal(source, target)


def test_a_renewal_begins_again_when_its_first_answer_is_cut_off(source, target, mirror):
    source.delete("a")
    source.forget()
    assert mirror.step().more
    source.cut_after = 2
    with pytest.raises(UnavailableError):
        mirror.step()
    source.delete("b")
    source.cut_after = None
    caught_up(mirror)
    assert_equal(source, target)


def test_a_source_that_was_made_anew_is_followed_also_to_another_dimension(source, target, mirror):
    source.delete("a", "b", "c")
    source.put("c", "new", dimension=3)
    caught_up(mirror)
    assert_equal(source, target)
    source.__init__()
    source.id = "s2"
    for each in "bxyz":
        source.put(each, f"another text of {each}", dimension=3)
    caught_up(mirror)
    assert_equal(source, target)


def test_a_copy_that_was_restored_from_a_backup_goes_on_from_there(source, target, mirror):
    backup = orjson.dumps(target.collections)
    source.delete("a")
    caught_up(mirror)
    source.put("d", "text of d")
    caught_up(mirror)
    target.collections = orjson.loads(backup)
    for each in target.collections.values():
        each["documents"] = {name: tuple(told) for name, told in each["documents"].items()}
    caught_up(mirror)
    assert_equal(source, target)


def test_writes_that_fail_are_done_again_and_many_changes_in_parts(source, target, monkeypatch):
    mirror = mirror_of(source, target)
    target.fails = 1
    caught_up(mirror)
    source.delete("a")
    source.put("b", "new")
    target.fails = 2
    caught_up(mirror)
    assert_equal(source, target)
    monkeypatch.setattr(mirroring, "STORED_AT_ONCE", 2)
    monkeypatch.setattr(mirroring, "DELETED_AT_ONCE", 2)
    for each in range(7):
        source.put(str(each), "text")
    caught_up(mirror)
    source.delete("0", "1", "2", "3", "4")
    source.put("0", "again")
    caught_up(mirror)
    assert_equal(source, target)


def test_an_empty_collection_becomes_a_copy_and_is_known_by_the_id_of_its_source_wherever_that_is(source, target):
    target.make("copy", metadata={"kept": "no"})
    caught_up(mirror_of(source, target))
    assert_equal(source, target)
    source.delete("a")
    moved = Mirror(source, "https://moved.example", "renamed", target, "copy")
    caught_up(moved)
    assert_equal(source, target)
    assert source.asked[-1][0] == 4


@pytest.mark.parametrize("mark", [None, "text", {}, {"id": "another", "url": URL, "collection": "another", "next": 2}])
def test_a_collection_with_documents_that_is_no_copy_is_left_alone(source, target, mark):
    target.make("copy", metadata={} if mark is None else {"mirror": mark}, mine="a text")
    with pytest.raises(ConflictError, match="is no copy of 'library'"):
        mirror_of(source, target).step()
    assert target.collections["copy"]["documents"] == {"mine": ("a text", "AA")}


def test_neither_itself_nor_a_collection_of_another_metric_becomes_a_copy_and_other_conflicts_are_raised(
    source, target
):
    target.make("copy")
    target.collections["copy"]["id"] = source.id
    with pytest.raises(ConflictError, match="is the collection to be copied"):
        mirror_of(source, target).step()
    target.make("copy", metric="ip")
    with pytest.raises(ConflictError, match="has the metric ip"):
        mirror_of(source, target).step()

    def refuse(*_, **__):
        raise ConflictError("The collection is being restored", code="restoring")

    source.changes = refuse
    target.make("copy")
    with pytest.raises(ConflictError, match="being restored"):
        mirror_of(source, target).step()


def test_a_source_that_is_missing_is_told_apart(source, target, mirror):
    source.is_there = False
    with pytest.raises(SourceMissingError):
        mirror.step()
    source.is_there = True
    del target.collections["copy"]
    caught_up(mirror)
    assert_equal(source, target)


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
