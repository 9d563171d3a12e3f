"""The version of this release."""

from importlib.metadata import PackageNotFoundError, version


def release() -> str:
    try:
        return version("rag-wrapper")
    except PackageNotFoundError:
        return "unknown"
