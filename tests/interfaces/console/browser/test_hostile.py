"""What documents and addresses say comes out as text, never as a part of the page."""

from urllib.parse import quote

import pytest
import requests

from tests.interfaces.console.conftest import ADMIN
from tests.support.live import PATIENCE_SECONDS
from tests.support.model_server import as_events

MARKUP = '"><img src=x onerror="window.harmed=1"><script>window.harmed=1</script>\'{{7777*7}}'
COLLECTION = "hostile"
METADATA = {
    "title": f"title {MARKUP}",
    "source": f"source {MARKUP}",
    "section": f"section {MARKUP}",
    "section_id": f"section-id {MARKUP}",
    "kind": f"kind {MARKUP}",
    "tags": [f"tag {MARKUP}"],
    "chunk_index": 0,
    "page": f"page {MARKUP}",
    MARKUP: MARKUP,
    "updated_at": MARKUP,
}
IDS = [f"a {MARKUP}", f"b {MARKUP}"]


@pytest.fixture(scope="module")
def hostile(service):
    """A service whose every stored text is an attack; gives the addresses that show them."""

    def send(method, path, **more):
        answer = requests.request(method, service.url + path, headers=ADMIN, timeout=PATIENCE_SECONDS, **more)
        assert answer.status_code < 300, answer.text
        return answer.json()

    model = send("GET", "/collections/rag-documents")["metadata"]
    send("POST", "/collections", json={"name": COLLECTION, "metadata": {**model, MARKUP: MARKUP}})
    documents = [
        {"id": each, "text": f"otter {MARKUP}", "metadata": METADATA, "embedding": [1.0, *[0.0] * 383]} for each in IDS
    ]
    send("POST", f"/collections/{COLLECTION}/documents", json={"documents": documents})
    send("POST", "/api/keys", json={"name": MARKUP, "scopes": ["read"], "collections": [COLLECTION]})
    name = MARKUP.replace("/", "_")
    files = {"file": (name, b"# otter\n\n" + MARKUP.encode(), "text/markdown")}
    job = send("POST", f"/api/documents?collection={COLLECTION}-files", files=files)
    said = quote(MARKUP)
    where = quote('{"title": ' + '"' + MARKUP.replace('"', '\\"') + '"}')
    return {
        "results": f"/ask?q=otter+{said}&collection={COLLECTION}&why=1",
        "reflected question": f"/ask?q={said}&collection={said}&limit={said}",
        "reflected filter": f"/ask?q=otter&where={where}&only={said}",
        "collection": f"/collections/{COLLECTION}?where=%7B%7D&facet=title&facet=tags&facet={said}&order_by=-title&deleted={said}",
        "reflected condition": f"/collections/{COLLECTION}?field={said}&op=$eq&value={said}",
        "unknown operator": f"/collections/{COLLECTION}?field=a&op={said}&value=1",
        "no such collection": f"/collections/{said}",
        "document": f"/collections/{COLLECTION}/document?id={quote(IDS[0])}",
        "deletion": f"/collections/{COLLECTION}/delete?where=" + quote('{"chunk_index": 0}'),
        "documents": f"/documents?source={said}&kind={said}&tag={said}",
        "all documents": "/documents",
        "job": f"/documents/jobs/{job['job']['id']}" if job.get("job") else "/documents",
        "keys": "/service/keys",
        "audit": f"/service/audit?since={said}&key={said}&collection={said}",
        "collections": f"/collections?prefix={said}",
        "sign-in": f"/sign-in?next={said}&ended={said}",
        "no such page": f"/{said}",
    }


def test_what_is_stored_and_what_is_asked_comes_out_as_text(hostile, admin_tab):
    page, shown = admin_tab.page, 0
    page.on("dialog", lambda dialog: pytest.fail(f"a page opened a dialog: {dialog.message}"))
    for name, address in hostile.items():
        admin_tab.open(address)
        assert page.evaluate("window.harmed") is None, name
        assert page.locator("img[src=x], script:not([src])").count() == 0, name
        text = page.locator("body").inner_text()
        assert "54439" not in text, name
        shown += "<script>window.harmed=1</script>" in text
    assert shown >= 8
    # Browsers say which pages were refused; none of the pages may be told to load or run anything else.
    complaints = [each for each in admin_tab.complaints if "status of 4" not in each]
    admin_tab.complaints.clear()
    assert complaints == []
    assert [each for each in admin_tab.asked if each.endswith("/x")] == []


def test_an_answer_of_a_model_comes_out_as_text(admin_tab, models):
    models.script.append(as_events({"choices": [{"delta": {"content": MARKUP}}]}, "[DONE]"))
    page = admin_tab.open("/ask?q=How+long+are+backups+kept%3F&collection=rag-documents")
    page.get_by_role("button", name="Answer").click()
    page.locator("#chat .status", has_text="source").wait_for()
    assert "{{7777*7}}" in page.locator("#chat .text").inner_text()
    assert page.evaluate("window.harmed") is None
    assert page.locator("img[src=x], script:not([src])").count() == 0
