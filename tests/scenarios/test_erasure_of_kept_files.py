"""A file that is kept for its owner goes with the document that was made of it."""

import io

from tests.scenarios.test_erasure import CANARY, OTHER, erase, files_with, tables_with
from tests.scenarios.test_erasure import service as service  # its kinds of database
from tests.support.live import eventually


def test_a_kept_file_is_in_no_file_after_the_erasure_of_its_document(service):
    with service() as app:
        client = app.test_client()
        made = client.post("/v1/vector_stores", json={"name": "kept"}).json
        place, documents = f"/v1/vector_stores/{made['id']}/files", {}
        for word in (CANARY, OTHER):
            form = {"purpose": "assistants", "file": (io.BytesIO(f"# Of {word}".encode()), f"{word}name.md")}
            file = client.post("/v1/files", data=form).json["id"]
            client.post(place, json={"file_id": file, "attributes": {"of": f"{word}author"}})
            eventually(lambda file=file: client.get(f"{place}/{file}").json["status"] == "completed")
            documents[word] = file
        (found,) = client.get(f"/api/documents?collection={made['collection']}&limit=1").json["documents"]
        assert files_with(app, CANARY)

        receipt = erase(client, collection=made["collection"], document=found["id"])

        removed = {each["place"]: each["removed"] for each in receipt["files"]}
        assert (removed["kept files"], removed["originals"], removed["jobs and uploads"]) == (1, 1, 1)
        assert tables_with(app, CANARY) == []
        assert files_with(app, CANARY) == []
        assert client.get(f"/v1/files/{documents[CANARY]}").status_code == 404
        with client.get(f"/v1/files/{documents[OTHER]}/content") as answer:
            assert OTHER in answer.text
        assert [each["id"] for each in client.get(place).json["data"]] == [documents[OTHER]]
