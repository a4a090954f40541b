"""Does a server keep the promises of a participant? For authors of servers, in any language.

From a shell, against a server that runs, with the token that it was started with::

    triocollect fuzz --participant resources=http://127.0.0.1:8000 --checkpoint-dir /shared/checkpoints

From a test of your own, without a socket and without a plugin; `make` makes the application of a process that
has served nothing, so each call has to make another one::

    from triocollect.conformance import Terms, examine_app

    def test_my_server_can_be_checkpointed(tmp_path):
        terms = Terms(token="s3cret", directory=tmp_path, row={"task": "..."})
        examined = examine_app(lambda: make_app(token="s3cret", root=tmp_path), terms)
        assert examined.kept, examined.text()

`PROMISES` are tried in their order, each in an epoch of its own, so that none suffers by another: one
sentence, a number, and where to look first when it is broken. What comes of one is a `Finding`: *kept*;
*BROKEN*, with what was asked, answered and expected; or *untried*, with the reason. One that builds on a
broken one is not tried. The last one is no single conversation: calls in any order, repeated, at once and
given up, drawn from `Terms.seed`, each answer held against `triocollect.conformance.reference`.

A server's work is one request, of which it has to answer the `row` with success: `/run` of an environment,
`/v1/responses` of a model, `/v1/agent_sessions` of an agent, `/seed_session` of a resources server, or the
route in `Terms.path`. It is asked for episodes that are called `conformance-…`; at the end they are retired
and forgotten, the server is open, and the folders that it wrote for them are removed. It needs the server for
itself: an open checkpoint, a restore that nobody has claimed, or another collector's live work is refused.

`examine_app` raises UsageError and RefusedError with the reason where nothing can be tried;
`examine_in_process` and `examine_url` are the same on a loop that runs (the latter under trio).
"""

from triocollect.conformance.examination import Terms
from triocollect.conformance.findings import Examined
from triocollect.conformance.places import examine_app, examine_in_process, examine_url
from triocollect.conformance.promises import Finding
from triocollect.conformance.table import PROMISES

__all__ = [
    "PROMISES",
    "Examined",
    "Finding",
    "Terms",
    "examine_app",
    "examine_in_process",
    "examine_url",
]
