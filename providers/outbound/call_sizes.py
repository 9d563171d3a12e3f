"""How many texts a service takes in one call: found out when it refuses a call, and remembered."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from providers.outbound import deadlines
from providers.outbound.refusals import (
    RefusedCallError,
    RefusedRequestError,
    RefusedTextsError,
    UnusableTextError,
    is_of_request,
)
from schemas.access.callers import check_acting
from schemas.errors import ConfigurationError, InvalidInputError, RagError, UnavailableError

RowT = TypeVar("RowT")

LASTS_SECONDS = 86_400.0
"""The time after which a larger call is tried again."""
LOOK_SECONDS = 10.0
"""The time after which it is looked up again what other processes have learnt."""
TEXTS_A_CALL = "max_texts_per_call"
PROBE = "connection test"
"""A text that a service takes which takes any."""
PROBE_SECONDS = 20.0
"""How long a call may take that finds out what is at fault: the service, a text, or the size of the call."""
MIN_BYTES = 4_096
"""No service has a lower limit of bytes: below, it is the number of texts that it limits."""
FAILURES = (InvalidInputError, UnavailableError, ConfigurationError)
_OF_SERVICE = ("timeout", "rate_limit")
"""The types of failures that fewer texts do not cure."""
HOPELESS = 3
"""So many texts refused alone, and none accepted, mean that it is not the texts."""
FEW = 2
"""The failures after which few calls (`deadlines.few_calls`) are enough."""
_OF_BYTES = re.compile(r"token|context|too large|payload|entity|HTTP 413\)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CallSize:
    """The most texts, and bytes of text, in one call; `learnt_at` is in seconds since the epoch.

    `is_plain` says that a call has one text as a string, because no list is taken.
    """

    texts: int
    bytes: int
    learnt_at: float = 0.0
    is_plain: bool = False


class CallSizes(Protocol):
    """What services were found to take, by a digest of each, for all processes. Nothing is raised."""

    def find(self, service: str) -> CallSize | None: ...

    def keep(self, service: str, size: CallSize | None) -> None:
        """Keep a size in place of an earlier one, or forget that."""


class OwnCallSizes:
    """What one process has learnt, for a program of a single process."""

    def __init__(self) -> None:
        self._sizes: dict[str, CallSize | None] = {}

    def find(self, service: str) -> CallSize | None:
        return self._sizes.get(service)

    def keep(self, service: str, size: CallSize | None) -> None:
        self._sizes[service] = size


@dataclass
class Answers(Generic[RowT]):
    """What became of texts, by their places in the list: the rows of those that were accepted, and the refusals of
    those that were refused alone."""

    texts: Sequence[str]
    call: Callable[[list[str]], Sequence[RowT]]
    plain: Callable[[str], Sequence[RowT]] | None
    """Sends a text as a string; None once that was tried, or where no service takes it."""
    rows: dict[int, RowT] = field(default_factory=dict)
    refused: dict[int, RagError] = field(default_factory=dict)
    failed: int = 0
    """The number of calls that failed."""
    sizes: list[CallSize] = field(default_factory=list)
    """The sizes of the calls that were accepted."""


class Calls:
    """Asks a service about many texts in as few calls as it takes; safe for use by several threads.

    A call that is refused (RefusedRequestError) is made again in parts, and no other failure is: that is less than two
    calls for each text. When all parts are accepted, the size of the call was at fault, and later calls are no larger
    until `LASTS_SECONDS` have passed, by any process that shares `known`. A text that is refused alone is at fault
    itself. Where few calls are to be made, other failures count as refusals, and after `FEW` of them the texts of a
    part that fails count as refused. A service that asks for a string, or refuses a list of one text and names its
    `input`, gets each text alone as a string, if it takes that once.
    """

    def __init__(
        self,
        service: Sequence[str],
        most: CallSize,
        known: CallSizes,
        *,
        anew: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`service` is what identifies the service and the model, `most` the size of the largest call. With `anew` that
        is tried first, whatever is known."""
        self._service = hashlib.sha256("\n".join(service).encode()).hexdigest()
        self.most = most
        self._known = known
        self._anew = anew
        self._clock = clock
        self._learnt: CallSize | None = None
        self._suspected: int | None = None
        self._looked_at: float | None = None

    @property
    def size(self) -> CallSize:
        """The size of the largest call that is made now."""
        if self._looked_at is None or self._clock() - self._looked_at > LOOK_SECONDS:
            self._look_up()
        learnt = self._learnt
        if learnt is None or self._anew or self._clock() - learnt.learnt_at > LASTS_SECONDS:
            return self.most
        return replace(learnt, texts=min(learnt.texts, self.most.texts), bytes=min(learnt.bytes, self.most.bytes))

    def told(self) -> dict[str, int]:
        """Return what a test of the connection tells: how many texts, or bytes of text, fit into one call if fewer than
        it is asked for."""
        size = self.size
        found = {} if size.texts == self.most.texts else {TEXTS_A_CALL: size.texts}
        return found if size.bytes == self.most.bytes else {**found, "max_bytes_per_call": size.bytes}

    def ask(
        self,
        texts: Sequence[str],
        call: Callable[[list[str]], Sequence[RowT]],
        plain: Callable[[str], Sequence[RowT]] | None = None,
    ) -> Answers[RowT]:
        """Return what `call` returns for the texts, or `plain` for each of them, a row for each, and which of them are
        refused.

        Raises what `call` raises, and the refusal when no text is accepted.
        """
        answers = Answers(texts, call, plain)
        self._ask_in_parts(answers, list(range(len(texts))), self.most)
        if not answers.rows and answers.refused:
            raise answers.refused[min(answers.refused)]
        return answers

    def suspect(self, failed: int, passed: int) -> None:
        """Note that a call of so many texts failed, in words that tell no limit, and parts of it passed. Their size is
        kept when that happens again before as many have passed, since the service may have come back meanwhile; at once
        by a test of the connection."""
        size = self.size
        if passed >= size.texts:
            return
        if self._anew or self._suspected is not None:
            self._keep(replace(size, texts=passed, learnt_at=self._clock()))
        else:
            self._suspected = failed

    def _ask_in_parts(self, answers: Answers[RowT], places: list[int], most: CallSize) -> None:
        while places:
            size = self.size
            part = _beginning(answers.texts, places, min(size.texts, most.texts), min(size.bytes, most.bytes))
            places = places[len(part) :]
            self._ask(answers, part)

    def _ask(self, answers: Answers[RowT], part: list[int]) -> None:
        if answers.rows or answers.refused:
            check_acting()  # the call before may have taken long
        is_plain = answers.plain is not None and self.size.is_plain
        refusal = self._refusal(answers, part, answers.plain if is_plain else None)
        if refusal is None:
            return
        if not is_plain and self._takes_strings(answers, part, refusal):
            self._ask_in_parts(answers, part[1:], self.most)
            return
        if len(part) == 1 and isinstance(refusal, RefusedRequestError):
            self._refuse(answers, part[0], refusal)
            return
        if deadlines.is_brief() and (answers.failed >= FEW or len(part) == 1):
            self._leave(answers, part, refusal)
            return
        refused, accepted = len(answers.refused), len(answers.sizes)
        self._look_up()
        self._ask_in_parts(answers, part, replace(self.most, texts=_less(len(part), refusal)))
        if len(answers.refused) > refused:
            return
        if isinstance(refusal, RefusedRequestError):
            self._learn(refusal, answers.sizes[accepted:])
        else:
            self.suspect(len(part), max(each.texts for each in answers.sizes[accepted:]))

    def _refusal(
        self, answers: Answers[RowT], part: list[int], plain: Callable[[str], Sequence[RowT]] | None
    ) -> RagError | None:
        """Make one call, with a text as a string where there is `plain`, and note what is accepted. Return the refusal
        otherwise."""
        texts = [answers.texts[place] for place in part]
        is_brief = deadlines.is_brief()
        try:
            with deadlines.single_attempts() if is_brief and answers.failed else nullcontext():
                rows = answers.call(texts) if plain is None else plain(texts[0])
        except (RefusedRequestError, UnavailableError, RefusedCallError) as error:
            is_refusal = isinstance(error, RefusedRequestError)
            if not is_refusal and (not is_brief or error.details.get("error_type") in _OF_SERVICE):
                raise
            answers.failed += 1
            found = error.accepted if isinstance(error, UnusableTextError) else {}
            if not found:
                return error
            answers.rows.update((part[place], row) for place, row in found.items())
            answers.refused.update((each, error) for place, each in enumerate(part) if place not in found)
            return None
        answers.rows.update(zip(part, rows, strict=True))
        answers.sizes.append(CallSize(len(texts), _bytes(texts)))
        self._accepted(answers.sizes[-1])
        return None

    def _takes_strings(self, answers: Answers[RowT], part: list[int], refusal: RagError) -> bool:
        """Try the first text as a string, once, where the refusal of a list may be about that, and return whether the
        service takes strings."""
        plain = answers.plain
        if not isinstance(refusal, RefusedRequestError):
            return False
        may_be = len(part) == 1 and refusal.names("input") and not is_of_request(refusal.said) and not answers.sizes
        if plain is None or not (refusal.wants_string or may_be):
            return False
        answers.plain = None
        again = self._refusal(answers, part[:1], plain)
        if isinstance(again, RefusedRequestError) and (again.wants_string or not refusal.wants_string):
            return False
        answers.plain = plain
        self._keep(CallSize(1, self.size.bytes, self._clock(), is_plain=True))
        if again is not None:
            self._refuse(answers, part[0], again)
        return True

    def _refuse(self, answers: Answers[RowT], place: int, refusal: RagError) -> None:
        """Note that a text was refused alone. Raises the refusal when it is not the texts that are refused."""
        answers.refused[place] = refusal
        if answers.rows or len(answers.refused) < HOPELESS - 1:
            return
        last = len(answers.texts) - 1
        if len(answers.refused) == HOPELESS - 1 and last not in answers.refused:
            self._ask(answers, [last])  # one from elsewhere
        if len(answers.refused) >= HOPELESS:
            raise answers.refused[min(answers.refused)]

    def _leave(self, answers: Answers[RowT], part: list[int], refusal: RagError) -> None:
        """Note that a part failed that is not made smaller. Raises the refusal when that is the second one and nothing
        was accepted, and suspects the size of the call; when that shows again, only if the service takes PROBE."""
        if answers.refused and not answers.rows:
            try:
                if self._suspected is not None:
                    with deadlines.single_attempts():
                        answers.call([PROBE])
                self.suspect(len(answers.texts), (len(part) + 1) // 2)
            except FAILURES:
                self._suspected = None
            raise refusal
        answers.refused.update(dict.fromkeys(part, refusal))

    def _look_up(self) -> None:
        self._learnt, self._looked_at = self._known.find(self._service), self._clock()

    def _learn(self, refusal: RefusedRequestError, accepted: Sequence[CallSize]) -> None:
        size = self.size
        texts, octets = max(each.texts for each in accepted), max(each.bytes for each in accepted)
        if octets >= MIN_BYTES and _OF_BYTES.search(refusal.message):
            learnt = replace(size, bytes=min(size.bytes, octets), learnt_at=self._clock())
        else:
            learnt = replace(size, texts=min(size.texts, texts), learnt_at=self._clock())
        self._keep(learnt)

    def _keep(self, learnt: CallSize) -> None:
        self._learnt, self._anew, self._suspected = learnt, False, None
        self._known.keep(self._service, learnt)

    def _accepted(self, size: CallSize) -> None:
        learnt = self._learnt
        if self._suspected is not None and size.texts >= self._suspected:
            self._suspected = None
        # A long text goes alone, whatever is known.
        if learnt is not None and size.texts > 1 and (size.texts > learnt.texts or size.bytes > learnt.bytes):
            self._learnt = None
            self._known.keep(self._service, None)


def by_halves(
    texts: Sequence[str],
    call: Callable[[list[str]], Iterable[RowT]],
    failure: RagError,
    named: Callable[[str, RagError], RagError] | None = None,
) -> tuple[list[RowT], int]:
    """Return a row for each of several texts of which a call failed, from calls for ever fewer of them, and the number
    of texts in the largest one.

    It takes a call for each halving, and two for PROBE, beyond those for the parts; each is sent once. Raises `failure`
    when it is about no text, or the service fails for PROBE too, a refusal then as ConfigurationError; the failure of
    the first text that fails alone, or is named by `details.index`, or what `named` returns for it; the failure that
    says that there are too many requests; and UnauthorizedError when the caller may not go on.
    """

    def once(some: list[str]) -> Iterable[RowT]:
        check_acting()  # the call before may have taken long
        with deadlines.within(PROBE_SECONDS), deadlines.single_attempts():
            return call(some)

    def probe() -> None:
        try:
            once([PROBE])
        except FAILURES as error:
            if isinstance(failure, InvalidInputError) and "status" in failure.details:
                raise ConfigurationError(failure.message, **failure.details) from failure
            failure.is_of_any_text = True
            raise failure from error

    def fewer(part: Sequence[str], error: RagError) -> int:
        is_of_many = not isinstance(error, ConfigurationError) or isinstance(error, RefusedCallError)
        if not is_of_many or error.is_of_any_text or error.details.get("error_type") == "rate_limit":
            raise error
        place = error.details.get("index", 0 if len(part) == 1 else None)
        # Whoever names a text without having asked a service, or having others accepted, need not be doubted.
        is_sure = isinstance(error, RefusedTextsError) or (
            isinstance(error, InvalidInputError) and "index" in error.details and "status" not in error.details
        )
        if not is_sure and (place is not None or error is failure):
            probe()
        if place is not None:
            if named is None:
                raise error
            raise named(part[place], error) from error
        return _less(len(part), error)

    rows: list[RowT] = []
    size, most = fewer(texts, failure), 0
    while len(rows) < len(texts):
        part = list(texts[len(rows) : len(rows) + size])
        try:
            rows.extend(once(part))
        except FAILURES as error:
            size = fewer(part, error)
        else:
            most = max(most, len(part))
    return rows, most


def failure_for(kind: type[UnusableTextError], texts: list[str], text: str, error: RagError) -> RagError:
    """Return the error that names, among several texts, the one at which a service fails or that it refuses."""
    alone = getattr(error, "alone", error)
    if isinstance(alone, InvalidInputError):
        return RefusedTextsError(texts, {texts.index(text): alone}, {})
    return kind(text, alone.message, **alone.details).among(texts)


def _less(texts: int, refusal: RagError) -> int:
    """Return of how many texts to make the parts of a call: as many as the service names, if that is not far from half
    of them, else half."""
    named = [int(each) for each in re.findall(r"\d{1,6}", str(refusal.details.get("reason", "")))]
    far = 10 if isinstance(refusal, RefusedRequestError) else 4  # other words tell more numbers than limits
    return max((each for each in named if texts / far <= each < texts), default=(texts + 1) // 2)


def _beginning(texts: Sequence[str], places: list[int], most: int, most_bytes: int) -> list[int]:
    """Return the first places whose texts fit into one call: at least one."""
    octets = 0
    for number, place in enumerate(places[:most]):
        octets += len(texts[place].encode())
        if number and octets > most_bytes:
            return places[:number]
    return places[:most]


def _bytes(texts: Sequence[str]) -> int:
    return sum(len(text.encode()) for text in texts)
