"""Write collections as other programs make them: `python foreign_collections.py DIRECTORY`.

It uses whatever chromadb the interpreter finds, of 0.6 or 1.x. The tests import it to know what must come out.
"""

import sys

import numpy as np

DIMENSION = 8
DOCUMENTS = {"l2": 300, "cosine": 2600, "ip": 1200}
STEP = 400
WORDS = ("Grüße", "日本語", "🦊", "plain")


def vectors(metric, count=None):
    """Return float32 vectors (n, dimension) of very different lengths, so that no metric can be mistaken for
    another."""
    generator = np.random.default_rng(len(metric))
    number = DOCUMENTS[metric] if count is None else count
    drawn = generator.normal(size=(number, DIMENSION)) * generator.uniform(0.2, 5, size=(number, 1))
    return drawn.astype(np.float32)


def document(metric, number):
    """Return (id, text, metadata) of a document; every seventh has no metadata, every ninth no text."""
    metadata = {"n": number, "f": number / 8, "b": number % 2 == 0, "s": WORDS[number % 4]} if number % 7 else None
    return f"{metric}/{number} ü", f"text {number} {WORDS[number % 4]}" if number % 9 else None, metadata


def _fill(collection, metric):
    embeddings = vectors(metric)
    for start in range(0, len(embeddings), STEP):
        rows = [document(metric, number) for number in range(start, min(start + STEP, len(embeddings)))]
        collection.add(
            ids=[row[0] for row in rows],
            embeddings=embeddings[start : start + STEP].tolist(),
            documents=[row[1] for row in rows],
            metadatas=[row[2] for row in rows],
        )


def write(directory):
    import chromadb
    from chromadb.config import Settings

    is_old = chromadb.__version__.startswith("0.")
    client = chromadb.PersistentClient(directory, settings=Settings(anonymized_telemetry=False))

    def create(name, metric=None, **metadata):
        if metric is None or is_old:
            space = {} if metric is None else {"hnsw:space": metric, "hnsw:M": 12}
            return client.create_collection(name, metadata={**space, **metadata} or None, embedding_function=None)
        return client.create_collection(
            name, metadata=metadata or None, configuration={"hnsw": {"space": metric}}, embedding_function=None
        )

    for metric in DOCUMENTS:
        _fill(create(f"by-{metric}", metric, owner="somebody", level=1.5, number=3, truth=True), metric)
    # After this change 0.6 reports the default metric for it, and its metadata says nothing about the metric any more.
    misleading = create("misleading", "cosine", version=1)
    misleading.modify(metadata={"version": 2})
    misleading.add(ids=[str(n) for n in range(200)], embeddings=vectors("ip", 200).tolist())
    create("keyed").add(ids=["a", "b"], embeddings=[[1.0, 2.0], [3.0, 4.0]])
    legacy = client.create_collection("legacy", metadata={"hnsw:space": "ip"}, embedding_function=None)
    legacy.add(ids=[str(n) for n in range(50)], embeddings=vectors("l2", 50).tolist())
    create("empty-one", "ip", kept="yes")
    create("shared-name", "l2").add(ids=["theirs"], embeddings=[[1.0, 2.0]], documents=["theirs"])
    edited = create("edited", "l2")
    edited.add(ids=["a", "b", "c"], embeddings=[[1, 0], [0, 1], [1, 1]], metadatas=[{"v": 1}, {"v": 1}, {"v": 1}])
    edited.update(ids=["b"], metadatas=[{"v": 2}], embeddings=[[5, 5]])
    edited.delete(ids=["a"])
    if not is_old:
        with_lists = create("with-lists", "cosine")
        with_lists.add(
            ids=["x", "y"],
            embeddings=[[1.0, 0.0], [0.0, 1.0]],
            metadatas=[
                {"tags": ["red", "blue"], "sizes": [1, 2]},
                {"tags": ["red"], "huge": 2**70, "nan": float("nan")},
            ],
        )
        with_lists.add(ids=["z"], embeddings=[[1.0, 1.0]], uris=["file:///z"])


if __name__ == "__main__":
    write(sys.argv[1])
