"""Bodies of `/api/connections/env-vars`, and its answers as JSON. The values of variables are never told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from marshmallow import fields, validate

from schemas.connections import EnvVar
from schemas.wire.body import Body
from schemas.wire.fields import Text

MASK = "********"

Json = dict[str, Any]


class EnvVarNames(Body):
    names = fields.List(Text(), load_default=list, validate=validate.Length(max=1000))
    text = Text(load_default="")


class EnvVarsShown(Body):
    """A parameter taken for compatibility; values are masked whatever it says."""

    mask = Text(load_default=None)


class EnvVarsWanted(Body):
    """The field of a provider's form for which variables are suggested."""

    provider = Text(load_default="")
    field = Text(load_default="")


ENV_VAR_NAMES, ENV_VARS_ARGUMENTS, SUGGESTION_ARGUMENTS = EnvVarNames(), EnvVarsShown(), EnvVarsWanted()


def available_env_vars(names: Sequence[str]) -> Json:
    variables = [{"name": name, "value": MASK, "exists": True} for name in names]
    return {"variables": variables, "count": len(variables)}


def judged_env_vars(judged: Sequence[EnvVar], unknown: Iterable[str]) -> Json:
    """Spell whether variables can be used; `unknown` are sentences about names of the request that nothing reads."""
    disallowed = [each.name for each in judged if not each.is_allowed]
    missing = [each.name for each in judged if each.is_allowed and not each.is_set]
    said = [f"The variable {name} is not among those allowed here" for name in disallowed]
    said += [f"The variable {name} is not set" for name in missing]
    return {
        "valid": not said,
        "variables": [{"name": each.name, "allowed": each.is_allowed, "set": each.is_set} for each in judged],
        "warnings": [*said, *unknown],
        "missingVars": missing,
        "disallowedVars": disallowed,
    }


def suggested_env_vars(provider: str, field: str, suggested: Iterable[EnvVar]) -> Json:
    """Spell the variables that fit a field. `exists` says what `set` does, for older clients."""
    suggestions = [
        {"name": each.name, "set": each.is_set, "exists": each.is_set, "placeholder": f"${{{each.name}}}"}
        for each in suggested
    ]
    return {"provider": provider, "field": field, "suggestions": suggestions}
