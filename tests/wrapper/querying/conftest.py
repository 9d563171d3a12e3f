"""How many examples property tests of queries try, and which ones."""

from tests.properties.profiles import load_profile

load_profile()
