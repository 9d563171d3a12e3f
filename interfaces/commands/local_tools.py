"""The tools on a data directory of this machine, without a service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from interfaces.tool import Tool, allowed_values, described_tool
from schemas.access.table import TOOLS
from schemas.errors import ConfigurationError
from schemas.settings import OPEN, AccessSettings, RegistrySettings, RetrievalSettings, WrapperSettings


@dataclass
class LocalTools:
    """Has the tools, for several threads. Nothing is started and the directory is not claimed until one of them runs,
    which raises ConfigurationError when a setting is wrong or another process owns the directory."""

    settings: WrapperSettings
    registry: RegistrySettings
    retrieval: RetrievalSettings
    access: AccessSettings

    def __post_init__(self) -> None:
        self._opening = Lock()
        self.tools: Mapping[str, Tool[Any]] = {name: self._tool(name) for name in TOOLS}
        self._opened: Mapping[str, Tool[Any]] | None = None
        self._close = lambda: None

    def close(self) -> None:
        with self._opening:
            self._close()
            self._close = lambda: None

    def _tool(self, name: str) -> Tool[Any]:
        return described_tool(
            name,
            lambda given: self._tools_of_directory()[name].run(given),
            lambda outcome: self._tools_of_directory()[name].spell(outcome),
            allowed_values(self.retrieval),
        )

    def _tools_of_directory(self) -> Mapping[str, Tool[Any]]:
        with self._opening:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def _open(self) -> Mapping[str, Tool[Any]]:
        # Imported late: together these modules take longer to import than the first answer may take.
        from interfaces.compose import way_out
        from interfaces.layers import Layers
        from interfaces.mcp.tools import mcp_tools
        from interfaces.recorded_tools import recorded_tools
        from wrapper.access.authentication import Authentication
        from wrapper.access.stored_keys import StoredKeys
        from wrapper.service import open_service

        try:
            service = open_service(self.settings, self.access, serves=False)
        except ConfigurationError as error:
            sentence = f"{error.message}; let 'rag-wrapper serve' run there, and all can use it by --url"
            raise ConfigurationError(sentence, **error.details) from error
        try:
            authentication = Authentication(AccessSettings(OPEN), self.settings.host, StoredKeys(service.catalog))
            network = way_out(self.registry, service.own_servers)
            layers = Layers(service, authentication, network, self.registry, self.retrieval, self.access)
        except BaseException:
            service.close()
            raise
        service.on_close(layers.close)
        self._close = service.close
        return recorded_tools(mcp_tools(layers), service.recorder)
