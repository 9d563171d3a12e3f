"""Serves the routes of all faces."""

from __future__ import annotations

from flask import Flask

from interfaces.chroma import about_server, collections_of_database, namespaces, records, searching
from interfaces.chroma import face as chroma
from interfaces.dify import retrieval as dify
from interfaces.openai import chat_completions, embeddings, known_models, stores
from interfaces.openai.face import FACE as OPENAI
from wrapper.web import route_table
from wrapper.web.error_statuses import speak


def mount_faces(app: Flask) -> None:
    """Serve the routes of all faces, and have their errors answered in the words of each."""
    for face in (chroma.FACE, chroma.OLD_FACE, dify.FACE, OPENAI):
        speak(app, face)
    of_chroma = (about_server, namespaces, collections_of_database, records, searching)
    route_table.register(app, *of_chroma, dify, embeddings, known_models, chat_completions, stores)
