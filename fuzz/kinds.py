"""The hooks of every kind of server, each without the server around them."""

from tests.participant.harness import inline
from triocollect.participant import Participant, Record, Sessions
from triocollect.servers.agent.sessions import AgentSessions
from triocollect.servers.environment.episodes import Episodes
from triocollect.servers.model.account import Account
from triocollect.servers.model.capture import Capture
from triocollect.servers.resources.open_sessions import OpenSessions

MAKE = {
    "environment": lambda admission: Episodes("one", admission),
    "agent": lambda admission: AgentSessions("one", admission),
    "resources": lambda admission: OpenSessions("one", admission, "exported", dict),
    "model": lambda admission: Capture("one", admission, None, Account(None, inline)),
    "sessions": lambda admission: Sessions("resources", "one", admission, dump=dict, load=dict),
    "restart only": lambda admission: Participant("resources", "one", admission, Record),
}
