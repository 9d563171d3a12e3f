"""Bodies of requests during which something happens."""

import io


class Lines(io.BytesIO):
    """A body of lines, which calls `at_half` when half of it has been read."""

    def __init__(self, lines, at_half):
        super().__init__(b"".join(lines))
        self._half, self._at_half = sum(map(len, lines)) // 2, at_half

    def read(self, size=-1):
        if self.tell() >= self._half and self._at_half is not None:
            self._at_half, then = None, self._at_half
            then()
        return super().read(min(size, 4_096) if size > 0 else 4_096)

    def readinto(self, buffer):
        part = self.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)
