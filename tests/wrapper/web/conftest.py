from tests.properties.profiles import load_profile

load_profile()
