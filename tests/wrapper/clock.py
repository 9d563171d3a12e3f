"""A clock of a test's own."""


class Clock:
    """It says `now`, which a test sets: seconds, or a moment."""

    def __init__(self, now=0.0):
        self.now = now

    def __call__(self):
        return self.now
