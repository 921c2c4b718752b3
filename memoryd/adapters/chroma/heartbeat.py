"""Whether a Chroma server gives a sign of life: asked on a new connection, with a short limit.

A request to a server that hangs, or through a network that drops packets, ends with its own, long
limit, and the worker waits for it. A heartbeat costs nothing and says within seconds that the
server is away, and that it is back. Any answer counts but those of a proxy without its server.
"""

from __future__ import annotations

from http.client import HTTPException
from ssl import SSLCertVerificationError
from urllib.error import HTTPError, URLError
from urllib.request import HTTPSHandler, Request, build_opener

import anyio
import anyio.to_thread

from memoryd.adapters.chroma.remote_errors import AWAY
from memoryd.adapters.embed.package_index.http import ssl_context
from memoryd.settings import StoreSettings

ANSWER_SECONDS = 3.0  # three round trips of a slow link; a server that is well takes milliseconds
PATH = "/api/v2/heartbeat"


async def answers(settings: StoreSettings) -> bool:
    """Whether the server answers within `ANSWER_SECONDS`."""
    with anyio.move_on_after(ANSWER_SECONDS):  # the lookup of a name has no limit of its own
        return await anyio.to_thread.run_sync(_ask, settings, abandon_on_cancel=True)
    return False


def _ask(settings: StoreSettings) -> bool:
    try:
        request = Request(_address(settings), headers=dict(settings.headers))
        context = ssl_context(settings.ca_file) if request.type == "https" else None
        with build_opener(HTTPSHandler(context=context)).open(request, timeout=ANSWER_SECONDS):
            return True
    except HTTPError as exc:
        exc.close()
        return exc.code not in AWAY
    except URLError as exc:  # with a bad certificate it is there, and the next call says so
        return isinstance(exc.reason, SSLCertVerificationError)
    except (OSError, HTTPException, ValueError):
        return False


def _address(settings: StoreSettings) -> str:
    """As Chroma's client makes it: a host may be a whole address."""
    if settings.host.startswith("http"):
        return settings.host.rstrip("/") + PATH
    return f"http{'s' if settings.ssl else ''}://{settings.host}:{settings.port}{PATH}"
