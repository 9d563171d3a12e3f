"""What the service answers, as types: dictionaries with the names of openapi.yaml.

Made from openapi.yaml by `clients/python/wire_types.py`: change that, not this."""

from rag_wrapper_client.wire.answering import *  # noqa: F403
from rag_wrapper_client.wire.connections import *  # noqa: F403
from rag_wrapper_client.wire.files import *  # noqa: F403
from rag_wrapper_client.wire.quality import *  # noqa: F403
from rag_wrapper_client.wire.searching import *  # noqa: F403
from rag_wrapper_client.wire.service import *  # noqa: F403
from rag_wrapper_client.wire.shared import *  # noqa: F403
from rag_wrapper_client.wire.storage import *  # noqa: F403
