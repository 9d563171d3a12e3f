"""The vectors of the last questions of each collection are kept, each once."""

import numpy as np

from wrapper.querying.asked_vectors import COLLECTIONS, KEPT, AskedVectors


def _vector(*components):
    return np.array(components, dtype="<f4")


def _of(asked, key):
    return [each.tolist() for each in asked.of(key)]


def test_the_last_questions_are_kept_and_equal_ones_once():
    asked = AskedVectors()
    for number in range(KEPT + 2):
        asked.note(1, _vector(number, 1))
        asked.note(1, _vector(number, 1))
    asked.note(2, _vector(7))
    assert _of(asked, 1) == [[number, 1] for number in range(2, KEPT + 2)]
    assert _of(asked, 2) == [[7]]
    assert _of(asked, 3) == []


def test_a_question_of_another_dimension_is_another_question():
    asked = AskedVectors()
    asked.note(1, _vector(1))
    asked.note(1, _vector(1, 1))
    assert _of(asked, 1) == [[1], [1, 1]]


def test_the_collections_that_were_asked_last_are_kept():
    asked = AskedVectors()
    for key in range(COLLECTIONS):
        asked.note(key, _vector(key))
    asked.note(0, _vector(100))
    asked.note(COLLECTIONS, _vector(0))
    assert _of(asked, 0) == [[0], [100]]
    assert _of(asked, 1) == []
    assert _of(asked, COLLECTIONS) == [[0]]
