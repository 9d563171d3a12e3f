"""`/api/judgements` and `/api/bench`: which documents people found relevant, and how well the search finds them."""

from __future__ import annotations

from flask import Blueprint, Response

from interfaces.web.current_request import layers
from schemas.access.callers import current
from schemas.wire.judgements import (
    JUDGEMENTS_PAGE,
    NEW_BENCH,
    NEW_JUDGEMENT,
    OF_COLLECTION,
    bench_answer,
    bench_summary,
    benches_answer,
    forgotten_judgement,
    judgement_answer,
    judgements_page,
    query_set_archive,
    verdict,
)
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments, body, store
from wrapper.web.route_table import declare

blueprint = Blueprint("quality", __name__, url_prefix="/api")


@blueprint.post("/judgements")
@declare(Lane.WRITE, body=NEW_JUDGEMENT)
def judge() -> Response:
    given, since = verdict(body()), layers().quality.judgements.erasures()
    layers().documents.one(given.document_id, given.collection)
    kept = layers().quality.judgements.keep(given, asker=current().asker, since=since)
    return json_response(judgement_answer(kept), 201)


@blueprint.get("/judgements")
@declare(Lane.READ, query=JUDGEMENTS_PAGE)
def list_judgements() -> Response:
    return json_response(judgements_page(*layers().quality.judgements.page(**arguments(), asker=current().asker)))


@blueprint.delete("/judgements/<judgement_id>")
@declare(Lane.WRITE)
def forget_judgement(judgement_id: str) -> Response:
    layers().quality.judgements.forget(judgement_id, asker=current().asker)
    return json_response(forgotten_judgement(judgement_id))


@blueprint.get("/query-set")
@declare(Lane.READ, query=OF_COLLECTION)
def export_judgements() -> Response:
    name = arguments()["collection"]
    store().collection(name)
    questions, documents = layers().quality.judged_set(name, asker=current().asker)
    archive = query_set_archive(questions, documents)
    headers = {"Content-Disposition": f'attachment; filename="{name}-judgements.zip"'}
    return Response(archive, mimetype="application/zip", headers=headers)


@blueprint.post("/bench")
@declare(Lane.WRITE, body=NEW_BENCH)
def start_bench() -> Response:
    asked = body()
    store().collection(asked["collection"])
    return json_response(bench_summary(layers().quality.start(**asked, asker=current().asker)), 202)


@blueprint.get("/bench")
@declare(Lane.READ)
def list_benches() -> Response:
    return json_response(benches_answer(layers().quality.benches.all(asker=current().asker)))


@blueprint.get("/bench/<bench_id>")
@declare(Lane.READ)
def show_bench(bench_id: str) -> Response:
    return json_response(bench_answer(layers().quality.benches.one(bench_id, asker=current().asker)))


@blueprint.delete("/bench/<bench_id>")
@declare(Lane.WRITE)
def end_bench(bench_id: str) -> Response:
    return json_response(bench_summary(layers().quality.benches.end(bench_id, asker=current().asker)))
