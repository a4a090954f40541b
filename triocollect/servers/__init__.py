"""The servers of the reference deployment: environment, agent, policy model, resources, inference.

Each kind has a package here whose module `app` has two names:

- `<Kind>Settings`, a msgspec Struct: the one JSON line that a server process reads from its standard input;
- `build_app(settings) -> Starlette`, the whole server as an ASGI application.

`python -m triocollect.servers KIND --name NAME --fd N` makes an ordinary process of one.
"""

from typing import Final

KINDS: Final = ("environment", "agent", "model", "resources", "inference")
