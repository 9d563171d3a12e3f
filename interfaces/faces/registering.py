"""Serves the routes of all faces."""

from __future__ import annotations

from flask import Flask

from interfaces.chroma import about_server, collections_of_database, records
from interfaces.chroma import face as chroma
from interfaces.dify import retrieval as dify
from interfaces.openai import (
    chat_completions,
    embeddings,
    file_batches,
    kept_files,
    known_models,
    store_files,
    stores,
    vector_stores,
)
from interfaces.openai.face import FACE as OPENAI
from wrapper.web import route_table
from wrapper.web.error_statuses import speak


def mount_faces(app: Flask) -> None:
    """Serve the routes of all faces, and have their errors answered in the words of each."""
    for face in (chroma.FACE, chroma.OLD_FACE, dify.FACE, OPENAI):
        speak(app, face)
    app.url_map.converters["store_file_id"] = store_files.StoreFileId
    app.url_map.converters["store_content_id"] = store_files.StoreFileContentId
    of_chroma = (about_server, collections_of_database, records)
    of_stores = (vector_stores, stores, store_files, file_batches)
    of_openai = (embeddings, known_models, chat_completions, kept_files, *of_stores)
    route_table.register(app, *of_chroma, dify, *of_openai)
