"""Environment variables whose names begin with `RAG_`."""

from __future__ import annotations

from collections.abc import Iterable

from environs import Env, EnvError, validate

from schemas.errors import ConfigurationError

PREFIX = "RAG_"
LONGEST_WAIT_SECONDS, LONGEST_KEPT_SECONDS = 86_400, 365 * 86_400
"""The most seconds that settings may give for waiting and for keeping something: sockets and clocks cannot take any
number."""


def environment() -> Env:
    """Return a reader of the environment; only `seal` raises, naming all wrong variables at once."""
    return Env(eager=False, prefix=PREFIX)


class OneWordOf(validate.OneOf):
    """Accepts one of these words in upper or lower case; the value stays as it was written. Sentences leave out the
    empty word, which stands for none."""

    def __init__(self, words: Iterable[str]) -> None:
        super().__init__(words)
        self.choices_text = ", ".join(filter(None, self.choices))

    def __call__(self, value: str) -> str:
        super().__call__(value.lower())
        return value


def seal(env: Env) -> None:
    """Raise ConfigurationError naming every wrong variable."""
    try:
        env.seal()
    except EnvError as error:
        raise ConfigurationError(f"Wrong settings: {_sentence(error)}") from None


def _sentence(error: EnvError) -> str:
    messages = getattr(error, "error_messages", None) or {"": [str(error)]}
    return "; ".join(
        f"{variable}: {' '.join(str(reason) for reason in reasons)}" for variable, reasons in messages.items()
    )
