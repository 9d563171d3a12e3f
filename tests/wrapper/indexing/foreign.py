"""Make collections in the engine as other programs do, and tell how far their adoption has come."""

import numpy as np

from schemas.where import EVERYTHING
from wrapper.catalog.index_state import adoptions


def make_foreign(engine, name="foreign", number=5, *, metric="l2", metadata=None, first=0):
    made = engine.get_collection(name)
    engine_id = made.id if made else engine.create_collection(name, metric=metric, metadata=metadata)
    numbers = range(first, first + number)
    vectors = np.random.default_rng(7).normal(size=(first + number, 3)).astype("<f4")[first:] * 2
    engine.upsert(
        engine_id, [f"d{n}" for n in numbers], vectors, [f"t{n}" for n in numbers], [{"n": n} for n in numbers]
    )
    return engine_id


def page(process, name="foreign", limit=1000):
    return process.store.page(name, EVERYTHING, limit=limit, offset=0, order_by=(), cursor=None, with_embeddings=True)[
        0
    ]


def ids_of(process, name="foreign"):
    return [each.id for each in page(process, name).documents]


def reports(process):
    with process.catalog.read() as transaction:
        return adoptions.report(transaction)


def step_until(process, condition):
    for _ in range(200):
        if condition():
            return
        process.applier.maintain()
    raise AssertionError("never")
