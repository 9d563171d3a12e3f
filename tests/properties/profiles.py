"""Choose how many examples are tried, and which ones."""

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

EXAMPLES = 25
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")


def load_profile() -> None:
    """Use the same examples in every run, so that a failure is caused by a change and not by chance.

    `HYPOTHESIS_PROFILE=search` looks much further, for hours, and `nightly` a little, each time at other examples.
    """
    settings.register_profile(
        "ci",
        deadline=None,
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.function_scoped_fixture,
            HealthCheck.data_too_large,
            HealthCheck.filter_too_much,
        ],
    )
    settings.register_profile("search", settings.get_profile("ci"), max_examples=2_000, derandomize=False)
    settings.register_profile("nightly", settings.get_profile("ci"), max_examples=4 * EXAMPLES, derandomize=False)
    settings.load_profile(PROFILE)
    if PROFILE == "ci":
        # Hypothesis takes constants from the modules that a process happens to have imported: the examples of a test
        # would depend on which tests ran before it.
        providers._get_local_constants = lambda: providers._local_constants


def at_most(examples: int) -> settings:
    """Return settings for a test whose examples take long: it tries so many in a usual run, and in a search as many times
    more as the others."""
    return settings(max_examples=examples * settings.default.max_examples // EXAMPLES)
