"""A wrong field of a request is named in its refusal, and nothing is done.

What each field takes is tried with the schemas; here are the faults that people make, on each route that reads.
"""

from urllib.parse import quote

import pytest

from tests.wrapper.routes.conftest import TWO_DOCUMENTS

ONE = {"query_embedding": [1.0, 0.0]}
NO_NUMBERS = ("-1", "abc", "1.5", "--5", "+-1", "+", " 7", "7 ", "1e3", "0x10", "٣", "")
NO_IDS = [
    ({"ids": "doc-0"}, {"field": "ids"}),
    ({"ids": {"a": 1}}, {"field": "ids"}),
    ({"ids": [1]}, {"field": "ids", "index": 0}),
    ({"ids": ["a", ""]}, {"field": "ids", "index": 1}),
    ({"ids": ["a", None]}, {"field": "ids", "index": 1}),
]
NO_VECTORS = (None, [], {}, "x", "", "AAAA", 7, True, ["1", 2], [True, 0], [None, 1], [[1, 0]], [1e39, 0])
NO_GATHERS = [
    *(({"by": by}, "by") for by in (None, "", 7, [], ["page", ""], ["page", 7], ["a", "b", "c", "d", "e"])),
    *(({"limit": limit}, "limit") for limit in (0, "7", "all")),
    *(({"before": before}, "before") for before in (-1, 101)),
    *(({"after": after}, "after") for after in ("2", 1.5)),
    *(({"order_by": order_by}, "order_by") for order_by in (7, ["-"])),
    ({"text": 1}, "text"),
]

RIGHT = {
    "POST /collections": {"name": "never-made"},
    "POST /collections/NAME/documents": {"documents": [{"id": "new", "text": "t", "embedding": [1.0, 0.0]}]},
    "POST /collections/NAME/query": ONE,
    "POST /collections/NAME/gather": {"ids": ["a"], "by": "page"},
    "POST /collections/NAME/text-search": {"query": "x"},
    "PUT /collections/NAME/documents/x": {"text": "t", "embedding": [1.0, 0.0]},
    "PATCH /collections/NAME/documents": {"where": {}, "metadata": {"x": 1}},
}
"""The fields of a right body that stand beside a wrong one."""

WRONG = {
    "POST /collections": [
        *(({"name": name}, {"field": "name"}) for name in (None, "", "ab", "a..b", "abc\n", "192.168.1.1", 7, ["a"])),
        *(({"metric": metric}, "metric") for metric in ("euclid", 7, ["l2"])),
        *(({"metadata": metadata}, "metadata") for metadata in ([], "text")),
        *(({name: 3}, name) for name in ("vectors", "hnsw", "dimension", "dimensions", "size")),
    ],
    "GET /collections": [
        *((f"?limit={limit}", "limit") for limit in ("0", "-1", "x", "1.5")),
        *((f"?prefix={prefix}", "prefix") for prefix in ("%00", "team-*", 513 * "a")),
        ("?cursor=x", "cursor"),
        ("?cursor=", "cursor"),
        ("?cursor=WyIiLCJhXHUwMDAwYiJd", "cursor"),  # ["", "a\u0000b"]
        ("?cursor=WyIiLDdd", "cursor"),  # ["", 7]
        ("?cursor=WyJhIiwiYmJiIl0", "cursor"),  # made for the prefix "a"
        ("?include=nonsense", "include"),
    ],
    "PUT /collections/NAME/metadata": [
        *(({"metadata": metadata}, "metadata") for metadata in (None, [1], "x")),
        ("?merge=maybe", "merge"),
    ],
    "GET /collections/NAME/documents": [
        *((f"?{name}={quote(text)}", name) for name in ("limit", "offset") for text in NO_NUMBERS),
        *((f"?order_by={order}", "order_by") for order in ("-", "a,-,b", ",".join(f"f{n}" for n in range(9)))),
        *(("?limit=0", "limit"), ("?offset=" + "9" * 400, "offset")),
        ("?include=vectors", "include"),
        ("?where=x", "where"),
        *((f"?cursor={cursor}", "cursor") for cursor in ("x", "====", "WzFd")),
    ],
    "POST /collections/NAME/documents": [
        ("?on_conflict=merge", {"field": "on_conflict", "allowed": ["replace", "skip", "error"]}),
        *((f"?replace_where={where}", "replace_where") for where in ("nonsense", '{"a":{"$like":1}}')),
    ],
    "GET /collections/NAME/documents/a": [("?include=vectors", "include")],
    "GET /collections/NAME/documents/count": [("?where=x", {"field": "where"})],
    "POST /collections/NAME/documents/search": [
        *(
            ({name: value}, name)
            for name in ("limit", "offset")
            for value in (-1, 1.5, "7", *NO_NUMBERS, [1], {"a": 1}, True)
        ),
        *NO_IDS,
        ({"limit": 0}, "limit"),
        ({"order_by": ["-"]}, "order_by"),
        ({"include": ["vectors"]}, "include"),
    ],
    "POST /collections/NAME/query": [
        *(({"query_embedding": vector}, "query_embedding") for vector in NO_VECTORS),
        *(({"top_k": top_k}, "top_k") for top_k in (0, -1, 1.5, "3", "many", True, [1], {}, "--1")),
        *(({"max_distance": distance}, "max_distance") for distance in ("0.5", True, False, [0.5], {})),
        *(({"gather": {"by": "page", **gather}}, f"gather.{field}") for gather, field in NO_GATHERS),
        *(({"gather": gather}, {"field": "gather"}) for gather in (7, "page", [], [{"by": "page"}], True)),
        *(({"query_embedding": None, "ids": ids}, "ids") for ids in ([], ["a"] * 101, "a")),
        ({"ids": ["a"]}, "ids"),
        ({"include": ["vector"]}, "include"),
        *(({"collection": other}, "collection") for other in ("other", 7)),  # than the path names
        *(({"query_embedding": None, "queries": each}, "queries") for each in ([], {}, [ONE] * 101)),
        ({"query_embedding": None, "queries": [{**ONE, "top_k": 1000}] * 11}, "queries"),
        *(
            ({"query_embedding": None, "queries": [ONE, question]}, field)
            for question, field in (
                ({}, "queries.1.query_embedding"),
                ({"query_embedding": [True]}, "queries.1.query_embedding"),
                ({**ONE, "top_k": 0}, "queries.1.top_k"),
                ({**ONE, "where": {"$x": 1}}, "queries.1.where"),
                ({**ONE, "gather": {}}, "queries.1.gather.by"),
                ({**ONE, "topk": 1}, "queries.1.topk"),
                ("text", "queries.1"),
            )
        ),
        *(
            ({"query_embedding": None, "queries": [ONE], **beside}, next(iter(beside)))
            for beside in (ONE, {"where": {"page": 1}}, {"top_k": 1}, {"include": ["embedding"]})
        ),
    ],
    "POST /query": [(ONE, "collection")],
    "POST /collections/NAME/gather": [
        *(
            *NO_GATHERS,
            *NO_IDS,
            ({"ids": None}, "ids"),
            ({"where": {}}, "ids"),
            ({"collection": "other"}, "collection"),
        ),
    ],
    "POST /collections/NAME/text-search": [
        *(({"query": query}, "query") for query in (None, 7, ["backups"], "a" * 10_001, '"' + "word " * 65 + '"')),
        *(({"top_k": top_k}, "top_k") for top_k in (0, "3", "x")),
        ({"where": {"a": {"$x": 1}}}, "where"),
    ],
    "GET /collections/NAME/metadata-values": [("", "field"), ("?field=", "field")],
    "GET /collections/NAME/facets": [
        *((query, "fields") for query in ("", "?fields=", "?fields=,")),
        *((f"?fields=a&limit={limit}", "limit") for limit in ("0", "x")),
        ("?fields=a&collection=other", "collection"),
    ],
    "GET /collections/NAME/projection": [
        *((f"?limit={limit}", "limit") for limit in ("0", "x")),
        *((f"?where={where}", "where") for where in ("{", '{"a":{"$no":1}}')),
    ],
    "GET /collections/NAME/changes": [
        *((f"?since={since}", "since") for since in ("-1", "x", 2**53 + 1)),
        *((f"?wait={wait}", "wait") for wait in ("61", "1.5")),
        ("?limit=0", "limit"),
        ("?include=vectors", "include"),
        ("?as_of=4", "as_of"),
    ],
    "PUT /collections/NAME/documents/x": [
        ({"id": "other"}, "id"),
        ({"text": None}, "text"),
        *(({"embedding": vector}, "embedding") for vector in (None, [1.0])),
        ({"metadata": []}, "metadata"),
    ],
    "PATCH /collections/NAME/documents/a": [
        ({"text": "t", "id": "other"}, {"field": "id"}),
        ({}, {"field": "text"}),
        ({"text": None, "unknown": 1}, {"field": "text"}),
        ({"text": 7}, {"field": "text"}),
        *(({"metadata": metadata}, {"field": "metadata"}) for metadata in ([1], "x")),
        *(({"embedding": vector}, {"field": "embedding"}) for vector in ([], ["1"])),
        ({"embedding": [1, 2, 3]}, {"field": "embedding", "expected": 2, "actual": 3}),
        ({"text": "good", "embedding": [1]}, {"field": "embedding", "expected": 2, "actual": 1}),
        *(({"uri": uri}, {"field": "uri"}) for uri in (5, "x" * 2_049)),
        *((body, {}) for body in ([], "x", 7, True)),
    ],
    "PATCH /collections/NAME/documents": [
        ({"where": None}, "where"),
        ({"where": {"$no": 1}}, "where"),
        ({"where": None, "ids": ["a", 7]}, "ids"),
        ({"metadata": None}, "metadata"),
    ],
    "DELETE /collections/NAME/documents": [
        *NO_IDS,
        *(
            (body, {"field": "ids"})
            for body in ({}, {"ids": None, "where": None}, {"ids": ["a"], "where": {"page": 1}})
        ),
        ({"where": {}}, {"field": "where"}),
        ({"ids": ["a"], "collection": "other"}, "collection"),
        ({"where": {"page": {"$like": 1}}}, "where"),
        *(({"where": where}, {"field": "where", "pointer": ""}) for where in ([1], "page")),
        ("", {"field": "ids"}),
    ],
}


@pytest.fixture(scope="module")
def name(shared_collection):
    return shared_collection(TWO_DOCUMENTS)


@pytest.mark.parametrize("asked", WRONG)
def test_a_wrong_field_is_named_and_nothing_is_done(client, name, unchanged, asked):
    method, path = asked.replace("NAME", name).split()
    found = []
    with unchanged(name):
        for wrong, details in WRONG[asked]:
            if isinstance(wrong, str) and (wrong.startswith("?") or not wrong):
                body = RIGHT.get(asked, {}) if method in ("PUT", "POST") else None
                answer = client.open(f"{path}{wrong}", method=method, json=body)
            else:
                body = {**RIGHT.get(asked, {}), **wrong} if isinstance(wrong, dict) else wrong
                answer = client.open(path, method=method, json=body)
            told = answer.json.get("details")
            if answer.status_code != 400 or details not in (told, told.get("field")):
                found.append((wrong, answer.status_code, told))
    assert not found, "\n".join(map(str, found))
    assert client.get("/collections/never-made").status_code == 404
