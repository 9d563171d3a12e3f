"""Check manifests of Kubernetes against its own description, which the models of its client for Python are made of.

An API server refuses what is refused here: unknown fields, missing ones, and values of another type.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from kubernetes import client
from pydantic import ValidationError


def manifests_in(file: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(file.read_text()) if each is not None]


def faults_of(manifest: dict[str, Any]) -> list[str]:
    """Return a sentence for each fault of a manifest, for kinds of Kubernetes itself."""
    version = manifest["apiVersion"].rpartition("/")[2]
    model = getattr(client, f"{version.title()}{manifest['kind']}", None)
    if model is None:
        return [f"Kubernetes has no {manifest['kind']} in {manifest['apiVersion']}"]
    try:
        model.model_validate(manifest, strict=True)
    except ValidationError as error:
        return [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
    return []
