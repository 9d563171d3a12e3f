"""What asks the routes of vector stores that read documents."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.properties.filtered.reads import QUESTIONS

STORE = "/v1/vector_stores/{vector_store_id}"


def routes_of(collections):
    """Return what asks each route, by its row in the table of access; `collections` are names."""

    def of(tail=""):
        return lambda ask: (f"/v1/vector_stores/{ask.draw(collections)}{tail}", {})

    def of_file(tail=""):
        return lambda ask: (f"/v1/vector_stores/{ask.draw(collections)}/files/{ask.document()}{tail}", {})

    def listing(ask):
        query = {"limit": ask.draw(st.integers(1, 4)), "order": ask.draw(st.sampled_from(("asc", "desc")))}
        return f"/v1/vector_stores/{ask.draw(collections)}/files", {"query_string": query}

    return {
        f"POST {STORE}/search": lambda ask: (
            f"/v1/vector_stores/{ask.draw(collections)}/search",
            {"json": {"query": ask.draw(QUESTIONS), "max_num_results": ask.draw(st.integers(1, 5))}},
        ),
        "GET /v1/vector_stores": lambda ask: ("/v1/vector_stores", {}),
        f"GET {STORE}": of(),
        f"GET {STORE}/files": listing,
        f"GET {STORE}/files/{{file_id}}": of_file(),
        f"GET {STORE}/files/{{file_id}}/content": of_file("/content"),
    }
