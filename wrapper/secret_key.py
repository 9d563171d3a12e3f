"""The keys under which layers above seal secrets: `RAG_SECRET_KEY`, or the file `secret.key` in the data directory.

The file has one key in each line, the newest first; there are two only while a rotation is under way.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cryptography.fernet import Fernet

from schemas.errors import ConfigurationError
from schemas.settings import AccessSettings
from schemas.storage.synced_folders import sync_folder
from wrapper.engine.data_directory_lock import unusable

KEY_FILE = "secret.key"
PRIVATE = 0o600
"""The mode of the file; nobody but its owner may have any right to it."""


def secret_keys(data_dir: Path, settings: AccessSettings) -> Callable[[], Sequence[str]]:
    """Return what gives the keys at any moment, newest first: those of the settings, else those of the file."""
    return (lambda: settings.secret_key) if settings.secret_key else KeyFile(data_dir)


class KeyFile:
    """The file with the keys. Calling it returns them as they are now; raises ConfigurationError when it cannot be
    used."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / KEY_FILE
        self._data_dir = data_dir
        self._read: tuple[tuple[int, ...], tuple[str, ...]] = ((), ())

    def __call__(self) -> tuple[str, ...]:
        try:
            seen = self._looks()
            if seen != self._read[0]:
                self._read = seen, _checked(self.path.read_bytes())
            return self._read[1]
        except OSError:
            raise _unusable("is missing or cannot be read") from None

    def check(self) -> None:
        """Raise ConfigurationError when there is a file that cannot be used."""
        if os.path.lexists(self.path):
            self()

    def make(self) -> None:
        """Make the file with a first key unless it is there, once however many processes try.

        Raises ConfigurationError when it cannot be made, or cannot be used.
        """
        if not os.path.lexists(self.path):
            with self._locked(fcntl.LOCK_EX):
                if not os.path.lexists(self.path):
                    self._write([_new_key()])
        self()

    @contextmanager
    def rotating(self) -> Iterator[None]:
        """Keep other rotations of this file out. Raises ConfigurationError when one is under way."""
        try:
            with self._locked(fcntl.LOCK_EX | fcntl.LOCK_NB):
                yield
        except BlockingIOError:
            raise ConfigurationError("The key is being changed by another command now") from None

    def add(self) -> bool:
        """Put a new key before the old one, and return True; False when an ended rotation has left two already."""
        keys = self()
        if len(keys) > 1:
            return False
        self._write([_new_key(), *keys])
        return True

    def drop_old(self) -> None:
        """Keep the newest key only."""
        self._write([self()[0]])

    def _looks(self) -> tuple[int, ...]:
        """Return what changes whenever the file is written."""
        status = self.path.stat()
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise ConfigurationError(
                f"The file {KEY_FILE} in the data directory is open to other users: allow only its owner to read it "
                f"(chmod {PRIVATE:o})",
                field="RAG_DATA_DIR",
            )
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size

    def _write(self, keys: Sequence[str]) -> None:
        try:
            # Killed while writing, an earlier process may have left a file with keys.
            for left in self._data_dir.glob(f"{KEY_FILE}.*"):
                left.unlink(missing_ok=True)
            descriptor, name = tempfile.mkstemp(prefix=f"{KEY_FILE}.", dir=self._data_dir)  # with the mode 0600
            with open(descriptor, "w") as file:
                if self.path.exists():
                    # The service must be able to read what an administrator writes.
                    owner = self.path.stat()
                    os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
                file.write("".join(f"{key}\n" for key in keys))
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self.path)
            sync_folder(self._data_dir)
        except OSError as error:
            raise unusable(self._data_dir, error) from None

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        try:
            # The directory itself: a file made by one user could not be locked by another.
            descriptor = os.open(self._data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise unusable(self._data_dir, error) from None
        try:
            fcntl.flock(descriptor, how)
            yield
        finally:
            os.close(descriptor)


def _checked(content: bytes) -> tuple[str, ...]:
    try:
        keys = tuple(content.decode("ascii").split())
        for key in keys:
            Fernet(key)
    except ValueError:
        keys = ()
    if not keys:
        raise _unusable("holds no key")
    return keys


def _new_key() -> str:
    return Fernet.generate_key().decode()


def _unusable(why: str) -> ConfigurationError:
    return ConfigurationError(
        f"The file {KEY_FILE} in the data directory {why}: put it back, or set RAG_SECRET_KEY", field="RAG_SECRET_KEY"
    )
