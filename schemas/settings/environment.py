"""Variables of the environment whose name begins with `RAG_`."""

from __future__ import annotations

from environs import Env, EnvError, validate

from schemas.errors import ConfigurationError

PREFIX = "RAG_"
LONGEST_WAIT_SECONDS, LONGEST_KEPT_SECONDS = 86_400, 365 * 86_400
"""Of settings that say how long something is waited for, or kept: neither sockets nor clocks know any number."""


def environment() -> Env:
    """Read from it, then `seal` it: only that says what is wrong, all of it at once."""
    return Env(eager=False, prefix=PREFIX)


class OneWordOf(validate.OneOf):
    """One of these words, in any case of letters; the value stays as it was written."""

    def __call__(self, value: str) -> str:
        super().__call__(value.lower())
        return value


def seal(env: Env) -> None:
    """Raises ConfigurationError naming every wrong variable."""
    try:
        env.seal()
    except EnvError as error:
        raise ConfigurationError(f"Wrong settings: {_sentence(error)}") from None


def _sentence(error: EnvError) -> str:
    messages = getattr(error, "error_messages", None) or {"": [str(error)]}
    return "; ".join(
        f"{variable}: {' '.join(str(reason) for reason in reasons)}" for variable, reasons in messages.items()
    )
