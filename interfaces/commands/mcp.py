"""`rag-wrapper mcp`: the tools for a program that starts this one and talks to it over standard input and output."""

from __future__ import annotations

import os
import signal
import threading
from queue import SimpleQueue
from typing import Any

import click

from interfaces.commands.options import config_option


@click.command()
@click.option(
    "--url",
    metavar="URL",
    help="Ask the service there. Without it, the service that runs on the data directory, else the directory itself.",
)
@config_option
def mcp(url: str | None) -> None:
    """Serve MCP, the Model Context Protocol, on standard input and output until the input ends.

    Logs go to standard error.

    Exit code: 0, or 2 if nothing could be served or the service refuses the key.
    """
    _at_signals(lambda *_: os._exit(0))  # from now on: a service may be slow to say whether the key is right
    import structlog

    from interfaces.asked_service import check_key, network_to, running_service, service_key
    from schemas.settings import (
        read_access_settings,
        read_registry_settings,
        read_retrieval_settings,
        read_wrapper_settings,
    )
    from wrapper.observing import logs

    settings, registry, retrieval = read_wrapper_settings(), read_registry_settings(), read_retrieval_settings()
    access = read_access_settings()
    logs.configure(settings.log_level, settings.log_format)
    url = url or running_service(settings.data_dir)
    log = structlog.get_logger(__name__)
    if url is None:
        log.info("serving MCP", data_dir=str(settings.data_dir))
    else:
        network = network_to(url, settings.data_dir)
        key = service_key(url, network)
        silent = check_key(url, network, key)
        log.info("serving MCP", service=url)
        if silent is not None:
            log.warning("the service does not answer; each call asks it again", reason=silent.message)
    # Imported after that, so that what is wrong is reported at once.
    import anyio

    from interfaces.commands.local_tools import LocalTools
    from interfaces.mcp.server import serve_stdio, tool_server
    from schemas.access.callers import ANYBODY, acting_as

    local = LocalTools(settings, registry, retrieval, access)
    if url is None:
        server = tool_server(local.tools)
    else:
        from interfaces.mcp.relay import relay_server

        server = relay_server(url, network, key)

    ending = SimpleQueue[None]()  # which a handler may put into whatever it interrupts, while it may start no thread

    def end() -> None:
        ending.get()
        local.close()
        os._exit(0)  # the library's thread reads on until a line comes

    threading.Thread(target=end, name="end", daemon=True).start()
    _at_signals(lambda *_: ending.put(None))
    try:
        # Who may read the directory may read all that is in it.
        with acting_as(ANYBODY):
            anyio.run(serve_stdio, server)
    finally:
        local.close()
        # A handler would not do: the interpreter goes back to the default before it is gone.
        _at_signals(signal.SIG_IGN)


def _at_signals(handler: Any) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)
