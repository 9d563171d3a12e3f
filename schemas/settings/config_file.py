"""The YAML file that `--config` names: settings for the environment, and connections that the operator declares."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from schemas.errors import ConfigurationError
from schemas.settings.contract_file import without_sections
from schemas.settings.environment import PREFIX
from schemas.settings.known import CONFIG_FILE, SET_BY_FILE, known_settings

CONNECTIONS = "connections"


def read_declared_connections() -> dict[str, Any]:
    """Return the connections in this process's configuration file, by id, as they are written."""
    path = os.environ.get(CONFIG_FILE)
    declared = _read_config_file(Path(path)).get(CONNECTIONS) if path else None
    if declared is None:
        return {}
    if not isinstance(declared, dict) or not all(isinstance(each, dict) for each in declared.values()):
        raise ConfigurationError(f"connections in {path} must map ids to connections (type, provider, config)")
    return {str(name): connection for name, connection in declared.items()}


def apply_config_file(path: Path) -> None:
    """Put the settings of a YAML file into the environment, unless they are set there already.

    The file maps variables to scalars or lists, with or without the prefix `RAG_`, in upper or lower case, and may have
    the sections of the contract *rules*. Its `connections` are read by `read_declared_connections`.
    """
    os.environ[CONFIG_FILE] = str(path.resolve())
    known, set_here = known_settings(), []
    for name, value in without_sections(_read_config_file(path)).items():
        if name == CONNECTIONS:
            continue
        variable = str(name).upper()
        variable = variable if variable.startswith(PREFIX) else f"{PREFIX}{variable}"
        if variable not in known:
            raise ConfigurationError(f"{path} has an unknown setting '{name}'", allowed=sorted(known))
        if isinstance(value, list):
            value = ",".join(str(item) for item in value)
        if isinstance(value, dict) or value is None:
            raise ConfigurationError(f"{name} in {path} must be a value or a list of values")
        if variable not in os.environ:
            os.environ[variable] = str(value)
            set_here.append(variable)
    if set_here:
        os.environ[SET_BY_FILE] = ",".join(set_here)


def _read_config_file(path: Path) -> dict[Any, Any]:
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"Cannot read the configuration file {path}: {error}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"The configuration file {path} must map names to values")
    return content
