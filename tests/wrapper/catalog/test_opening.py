"""A catalogue that several processes open at the same moment."""

import threading
from concurrent.futures import ThreadPoolExecutor

from wrapper.catalog.catalog import Catalog
from wrapper.catalog.rows import all_collections
from wrapper.catalog.sqlite import SQLiteDatabase

WORKERS = 8
NEW_FILES = 25


def test_a_new_catalogue_is_made_by_whoever_comes_first_and_opened_by_all(tmp_path):
    for number in range(NEW_FILES):
        path = tmp_path / f"{number}.sqlite"
        together = threading.Barrier(WORKERS)

        def open_one(path=path, together=together):
            catalog = Catalog(SQLiteDatabase(path))
            together.wait()
            catalog.open()
            with catalog.read() as transaction:
                found = all_collections(transaction)
            catalog.close()
            return found

        with ThreadPoolExecutor(WORKERS) as pool:
            assert [each.result() for each in [pool.submit(open_one) for _ in range(WORKERS)]] == [[]] * WORKERS
