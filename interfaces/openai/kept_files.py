"""`/v1/files`: files that are kept for whoever sends them, until they are attached to vector stores."""

from __future__ import annotations

from flask import Blueprint, Response, request

from interfaces.openai.store_files import detach_everywhere
from interfaces.web import current_request
from interfaces.web.current_request import layers
from interfaces.web.upload_parts import arriving_pieces, parts_of, sent_file, take_field
from retrieval.jobs.spool import Incoming
from schemas.errors import InvalidInputError
from schemas.field_names import check_names, names_of
from schemas.wire.body import load
from schemas.wire.openai.kept_files import FILE_FORM, FILES_PAGE, deleted_file, kept_file
from schemas.wire.openai.paging import DESCENDING, listed
from wrapper.web.bodies import MULTIPART, json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments, unknown
from wrapper.web.route_table import declare

FILE = "file"
MOST_PARTS = 20
ANY_BYTES = "application/octet-stream"

blueprint = Blueprint("openai_files", __name__, url_prefix="/v1/files")


@blueprint.post("")
@declare(Lane.UPLOAD, media_types=(MULTIPART,))
def upload() -> Response:
    with layers().kept_files.begin() as arriving:
        told = _fields(arriving)
        check_names(told, names_of(FILE_FORM), unknown())
        asked = load(FILE_FORM, told)
        file = layers().kept_files.keep(
            *(arriving, asked["purpose"], asked["lives_seconds"]), asker=current_request.asker()
        )
    return json_response(kept_file(file))


@blueprint.get("")
@declare(Lane.READ, query=FILES_PAGE)
def list_files() -> Response:
    asked = arguments()
    files, has_more = layers().kept_files.page(
        asker=current_request.asker(),
        purpose=asked["purpose"],
        limit=asked["limit"],
        after=asked["after"],
        newest_first=asked["order"] == DESCENDING,
    )
    return json_response(listed([kept_file(each) for each in files], has_more=has_more))


@blueprint.get("/<file_id>")
@declare(Lane.READ)
def show_file(file_id: str) -> Response:
    return json_response(kept_file(layers().kept_files.one(file_id, asker=current_request.asker())))


@blueprint.get("/<file_id>/content")
@declare(Lane.READ, own_rules=True)
def show_content(file_id: str) -> Response:
    file = layers().kept_files.one(file_id, asker=current_request.asker())
    return sent_file(layers().kept_files.content(file), file.name, ANY_BYTES)


@blueprint.delete("/<file_id>")
@declare(Lane.WRITE)
def delete_file(file_id: str) -> Response:
    asker = current_request.asker()
    layers().kept_files.one(file_id, asker=asker)
    detach_everywhere(file_id)
    return json_response(deleted_file(layers().kept_files.delete(file_id, asker=asker)))


def _fields(arriving: Incoming) -> dict[str, str]:
    """Take the file of a form and return its fields."""
    if request.mimetype != MULTIPART:
        raise InvalidInputError(f"A file comes as {MULTIPART}", code="invalid_field", field=FILE)
    fields: dict[str, str] = {}
    for part in parts_of(arriving_pieces(), request.mimetype_params.get("boundary", ""), most=MOST_PARTS):
        if part.file_name is None:
            take_field(fields, part)
        elif part.name == FILE:
            layers().kept_files.take(arriving, part.file_name, part.media_type, part.pieces)
        else:
            sentence = f"The part '{part.name[:100]}' is a file: the file is the part named '{FILE}'"
            raise InvalidInputError(sentence, code="invalid_field", field=FILE)
    return fields
