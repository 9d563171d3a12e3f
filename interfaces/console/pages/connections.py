"""Connections: their health and its history, and the forms that make, test, change and delete them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from interfaces.console.current_page import wire
from interfaces.console.forms import digest_of
from interfaces.console.provider_forms import form_of, masked, said_in
from interfaces.console.wire import AnyAnswer, RefusedError, WireRequest, encoded
from schemas.connections import UNHEALTHY
from schemas.errors import ConflictError, NotFoundError
from wrapper.web.error_statuses import status_of

blueprint = Blueprint("connections", __name__)

MOST = 1000
KINDS = {"rag": "Documents", "embedding": "Embeddings", "llm": "Chat", "rerank": "Reranking"}
"""The titles of the types of connections."""
WITH_MODELS = ("embedding", "llm")
STORED = "stored"
CHANGED = (
    "The connection has changed since you opened it, and nothing was saved: save again to have it as filled in here"
)
_CONNECTIONS = "/api/connections"
Json = dict[str, Any]


@blueprint.get("/connections")
def listed() -> str:
    known = wire().get(_CONNECTIONS, limit=MOST)["connections"]
    told = wire().get(f"{_CONNECTIONS}/health", limit=MOST)
    health = {each["id"]: each for each in told["connections"]}
    return render_template(
        "connections.html",
        connections=known,
        health=health,
        kinds=KINDS,
        deleted=request.args.get("deleted"),
    )


@blueprint.get("/new-connection")
def chosen() -> str:
    return render_template("connection_new.html", providers=wire().get(f"{_CONNECTIONS}/providers"), kinds=KINDS)


@blueprint.route("/new-connection/<kind>/<provider>", methods=["GET", "POST"])
def new(kind: str, provider: str) -> AnyAnswer:
    return _form(_told_of(kind, provider))


@blueprint.route("/connections/<connection_id>", methods=["GET", "POST"])
def show(connection_id: str) -> AnyAnswer:
    connection = wire().get(encoded("api", "connections", connection_id))
    try:
        told = _told_of(connection["type"], connection["provider"])
    except RefusedError as error:
        if error.status != status_of(NotFoundError):
            raise
        # Whoever made the connection had a package installed that is not here now.
        return render_template("connection_without_provider.html", connection=connection, refusal=error)
    return _form(told, connection)


def _form(told: Json, connection: Json | None = None) -> AnyAnswer:
    """Show the form of a connection that there is, or of a new one, and do what it was sent for."""
    if request.method != "POST":
        return _page(told, {} if connection is None else connection["config"], connection)
    config = said_in(request.form, told)
    if request.form.get("do") != "save":
        return _tried(told, config, connection)
    title = request.form.get("display_name", "").strip() or None
    body: Json = {"display_name": title, "shared": "shared" in request.form, "config": config}
    if connection is None:
        method, path = "POST", _CONNECTIONS
        body |= {"id": request.form.get("id", "").strip(), "type": told["type"], "provider": told["provider"]}
    else:
        now = _seen(connection)
        if request.form.get("seen", now) != now:
            return _page(told, config, connection, refusal=CHANGED), status_of(ConflictError)
        known = {each["name"] for each in told["fields"]}
        unshown = {name: value for name, value in connection["config"].items() if name not in known}
        body["config"] = unshown | config
        method, path = "PUT", encoded("api", "connections", connection["id"])
    try:
        saved, _ = wire().answer(method, path, body, aside=True)
    except RefusedError as error:
        return _refused(told, config, error, connection)
    return redirect(url_for("connections.show", connection_id=saved["id"], saved=1), 303)


@blueprint.post("/connections/<connection_id>/answers")
def choose(connection_id: str) -> Response:
    """Have a connection answer questions, or no longer."""
    chosen = {"chat_model": request.form.get("answers") == "1"}
    wire().answer("PUT", encoded("api", "connections", connection_id), chosen)
    return redirect(url_for("connections.listed"), 303)


@blueprint.route("/connections/<connection_id>/delete", methods=["GET", "POST"])
def delete(connection_id: str) -> AnyAnswer:
    """Delete a connection, after showing what cannot be reached without it."""
    path = encoded("api", "connections", connection_id)
    if request.method == "POST":
        wire().delete(path)
        return redirect(url_for("connections.listed", deleted=connection_id), 303)
    connection = wire().get(path)
    health = wire().get(f"{path}/health", aside=True)
    return render_template(
        "connection_delete.html", connection=connection, collections=_collections_behind(connection, health)
    )


def _told_of(kind: str, provider: str) -> Json:
    return wire().get(encoded("api", "connections", "providers", provider, "schema"), aside=True, type=kind)


def _seen(connection: Json) -> str:
    return digest_of([connection[name] for name in ("display_name", "shared", "config", "secrets")])


def _tried(told: Json, config: Json, connection: Json | None = None) -> AnyAnswer:
    """Show what comes of a test, the models to choose from, or what is wrong so far. Scripts put parts of such a page
    in the place of those that are shown."""
    do = request.form.get("do")
    if do == "judge":
        return _page(told, config, connection)
    path = encoded("api", "connections", told["type"], *(("discovery", "models") if do == "models" else ("test",)))
    body: Json = {"provider": told["provider"], "config": config}
    if connection is not None:
        body["changes"] = connection["id"]
    # The page may show what was asked, but not the secrets in it.
    wire().made.append(WireRequest("POST", path, body={**body, "config": masked(config, told)}))
    try:
        outcome = wire().post(path, body, aside=True)
    except RefusedError as error:
        if "stages" not in error.body:
            return _refused(told, config, error, connection)
        outcome = error.body
    wrong = [fault for stage in outcome.get("stages", ()) for fault in stage.get("errors", ())]
    return _page(told, config, connection, errors=wrong, outcome=outcome)


def _refused(told: Json, config: Json, error: RefusedError, connection: Json | None = None) -> AnyAnswer:
    """Show the form again, with the service's faults beside their fields."""
    errors = error.details.get("errors") or []
    return _page(told, config, connection, errors=errors, refusal="" if errors else error.message), error.status


def _page(
    told: Json,
    config: Json,
    connection: Json | None = None,
    *,
    errors: Sequence[Json] = (),
    refusal: str = "",
    outcome: Json | None = None,
) -> str:
    is_judged = request.form.get("do") == "judge"
    faults = _judged(told, config, connection) if config or is_judged else {"warnings": []}
    if not is_judged:
        faults["errors"] = errors
    secrets = {} if connection is None else connection["secrets"]
    shown: Json = {}
    if connection is not None:
        # What was filled in before somebody else's change is saved over that only by whoever has read of it.
        was_told = refusal == CHANGED or "seen" not in request.form
        shown["seen"] = _seen(connection) if was_told else request.form["seen"]
        if not is_judged:
            shown["health"] = wire().get(encoded("api", "connections", connection["id"], "health"))
            shown["collections"] = _collections_behind(connection, shown["health"])
    return render_template(
        "connection.html",
        form=form_of(told, config, request.form.get("choice"), secrets, faults, {} if is_judged else _variables(told)),
        told=told,
        connection=connection,
        can_change=connection is None or connection["origin"] == STORED,
        kind=KINDS[told["type"]],
        refusal=refusal,
        outcome=outcome,
        has_models=told["type"] in WITH_MODELS,
        given=request.form,
        **shown,
    )


def _judged(told: Json, config: Json, connection: Json | None) -> Json:
    body: Json = {"type": told["type"], "provider": told["provider"], "config": config}
    if connection is not None and connection["origin"] == STORED:
        body["changes"] = connection["id"]
    try:
        return wire().post(f"{_CONNECTIONS}/validate", body, aside=True)
    except RefusedError as error:
        return {"errors": [{"pointer": "", "message": error.message}], "warnings": []}


def _variables(told: Json) -> dict[str, list[Json]]:
    """Return the variables that fit each field where placeholders may stand."""
    return {
        each["name"]: wire().get(
            f"{_CONNECTIONS}/env-vars/suggestions", aside=True, provider=told["provider"], field=each["name"]
        )["suggestions"]
        for each in told["fields"]
        if each["secret"] or each["type"] == "url"
    }


def _collections_behind(connection: Json, health: Json) -> list[Json] | None:
    """Return the collections that a connection leads to; None where it leads to none, or they cannot be had now."""
    if connection["type"] != "rag" or health["status"] == UNHEALTHY:
        return None
    try:
        return wire().get(encoded("api", "connections", connection["id"], "collections"))["collections"]
    except RefusedError:
        return None
