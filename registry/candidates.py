"""Forms of connections that need not be stored: what is wrong with one, and what comes of trying it out."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, cast

from registry.connection_checks import STAND_IN
from registry.connection_trial import trial
from registry.connections import Connections
from registry.placeholders.resolving import UnresolvedPlaceholderError
from registry.placeholders.secret_fields import secret_faults, typed_secrets, with_secrets, without_secrets
from schemas.access.callers import current
from schemas.access.turns import waiting_for
from schemas.configuration import faults, tidied
from schemas.connections import Connection, Fault, InvalidConfigurationError, Stage, TestReport
from schemas.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Candidate:
    """A form, complete or not. `changes` is the id of the connection that it changes: secrets that the form leaves out
    are then those that the connection would keep."""

    kind: str
    provider: str
    config: dict[str, Any] = field(repr=False)
    changes: str | None = None


class Candidates:
    """Judges and tries out candidates for the current caller."""

    def __init__(self, connections: Connections, *, test_seconds: float = 10.0) -> None:
        self._connections = connections
        self._registry = connections.registry
        self._placeholders = connections.placeholders
        self._test_seconds = test_seconds

    def judge(self, asked: Candidate) -> tuple[list[Fault], list[Fault]]:
        """Return (errors in a form, remarks on it). Raises ScopeMissingError as `Connections.create` does, and what
        `Connections.change` raises for a connection that the caller may not change."""
        entry = self._registry.entry(asked.provider, asked.kind)
        if entry.provider is None:
            return [Fault("", f"Provider '{asked.provider}' cannot be used here: {entry.reason}")], []
        try:
            meant = self._meant(asked)
        except InvalidConfigurationError as error:
            return [Fault(each["pointer"], each["message"]) for each in error.details["errors"]], []
        given, schema = meant.config, entry.provider.connection_schema()
        forbidden = self._placeholders.forbidden(given, schema, entry.provider.address)
        kept = secret_faults(given, schema, typed=self._connections.takes_typed)
        whole = with_secrets(given, dict.fromkeys(meant.sealed, STAND_IN)) if meant.sealed else given
        wrong = [*faults(whole, schema, placeholders=True), *forbidden, *kept]
        noted = self._placeholders.missing(given, schema)
        typed = typed_secrets(given, schema)
        if typed and not wrong:
            # What a secret is typed for must be known.
            try:
                self._connections.leads_to(without_secrets(given, typed), entry.provider)
            except UnresolvedPlaceholderError:
                wrong, noted = noted, []
            except InvalidInputError as error:
                wrong = [Fault("/url", error.message)]
        if not entry.viable:
            noted.append(Fault("", f"Provider '{asked.provider}' cannot be used here: {entry.reason}"))
        return wrong, noted

    def test(self, asked: Candidate, *, for_models: bool = False) -> TestReport:
        """Return the report of `trial`."""
        *_, report = self.trial(asked, for_models=for_models)
        return cast(TestReport, report)

    def trial(self, asked: Candidate, *, for_models: bool = False) -> Generator[Stage | TestReport]:
        """Try a candidate out, or only ask it which models it has: yield each stage when it has ended, then the report.

        Problems of the configuration are in the report, not raised. Raises ScopeMissingError as `Connections.create`
        does, and for a connection that is changed what `Connections.change` raises.
        """
        meant = self._meant(asked)
        opened = self._connections.opened_secrets(meant)
        config = with_secrets(meant.config, opened) if opened else meant.config
        return self._in_turn(
            meant,
            trial(
                self._registry,
                self._placeholders,
                self._connections.context,
                asked.kind,
                asked.provider,
                config,
                seconds=self._test_seconds,
                clock=time.perf_counter,
                takes_typed=self._connections.takes_typed,
                for_models=for_models,
            ),
        )

    def _in_turn(self, meant: Connection, stages: Generator[Stage | TestReport]) -> Generator[Stage | TestReport]:
        """Yield the stages, those of one address only in so many requests at a time as others leave places."""
        with waiting_for(lambda: filter(None, [self._connections.address(meant)])), closing(stages):
            yield from stages

    def _meant(self, asked: Candidate) -> Connection:
        given = Connection("", asked.kind, asked.provider, tidied(asked.config))
        if asked.changes is not None:
            meant = self._connections.completed(asked.changes, given)
        else:
            config = self._connections.as_meant(given, given.config)
            meant = Connection("", asked.kind, asked.provider, config)
        self._connections.check_folders(meant, current())
        return meant
