"""Read by gunicorn when it is started in this folder; the configuration itself is part of the package."""

from wrapper.serving.gunicorn_config import *  # noqa: F403
