"""Mounting the console: its pages in front of the routes of the service."""

from __future__ import annotations

from flask import Flask

from interfaces.console.app import create_console
from interfaces.console.front_doors import FrontDoors
from interfaces.console.sessions import Sessions
from schemas.shared_database import Database


def mount_console(app: Flask, database: Database) -> None:
    """Put the console in front of the service's application."""
    sessions = Sessions(database)
    console = create_console(app.wsgi_app, app.extensions["rag.hosts_and_origins"], sessions)
    app.wsgi_app = FrontDoors(app.wsgi_app, console, sessions)  # type: ignore[method-assign]
