r"""Make a server a participant: its work can be cut in two by a checkpoint and continued by another process.

Works with any ASGI application, Gym 0.7.0's FastAPI servers among them, under trio and under asyncio. A whole
server, whose sessions are plain data; only the last part, from `admission`, is about checkpoints. This is
`dice.py`, and needs `pip install fastapi uvicorn`::

    import os
    import random
    import sys
    from pathlib import Path

    from fastapi import FastAPI, Request

    from triocollect.participant import Admission, Admitted, ControlPlane, Sessions, episode_in

    class Table:
        def __init__(self) -> None:
            self.dice = random.Random()
            self.thrown: list[int] = []

    app = FastAPI()

    @app.post("/seed_session")
    async def seed_session(request: Request) -> dict[str, str]:
        tables.begin(episode_in(request.headers), Table())
        return {}

    @app.post("/throw")
    async def throw(request: Request) -> dict[str, str]:
        if (table := tables.find(episode_in(request.headers))) is None:
            return {"output": "no game is on"}
        table.thrown.append(table.dice.randint(1, 6))
        return {"output": f"a {table.thrown[-1]}, {sum(table.thrown)} in all"}

    @app.post("/verify")
    async def verify(request: Request) -> dict[str, object]:
        table = tables.find(episode_in(request.headers))
        return {**await request.json(), "reward": float(table is not None and sum(table.thrown) >= 21)}

    @app.post("/close_session")
    async def close_session(request: Request) -> dict[str, str]:
        tables.end(episode_in(request.headers))
        return {}

    def dump(table: Table) -> object:
        version, words, gauss = table.dice.getstate()
        return {"thrown": table.thrown, "dice": [version, list(words), gauss]}

    def load(kept) -> Table:
        table = Table()
        table.thrown = kept["thrown"]
        version, words, gauss = kept["dice"]
        table.dice.setstate((version, tuple(words), gauss))
        return table

    def named(variable: str) -> str:
        return os.environ.get(variable) or sys.exit(f"the dice need to be told {variable}")

    admission = Admission()
    tables = Sessions("resources", "dice", admission, dump=dump, load=load)
    app.add_middleware(Admitted, admission=admission, replayable=["/verify"], passing=["/close_session"])
    app.add_middleware(                                  # the last one added is the outermost
        ControlPlane,
        hooks=tables,
        admission=admission,
        token=named("TRIOCOLLECT_CONTROL_TOKEN"),        # as `triocollect run` has it
        root=Path(named("CHECKPOINT_DIR")),              # its `--checkpoint-dir`, as this machine mounts it
    )

Rows name it, and the tools that the model may call. This makes one that the scripted model can play, serves
the dice (in one worker; the lifespan has to be on: a write that outlasts its call lives in it), and collects
with them in the embedded deployment::

    printf %s '{"task_source": "dice", "responses_create_params": {"input": "Call throw 8 times.", ' \
        '"tools": [{"type": "function", "name": "throw"}]}}' > dice.jsonl
    export TRIOCOLLECT_CONTROL_TOKEN=$(python3 -c 'import secrets; print(secrets.token_hex())')
    export CHECKPOINT_DIR=$PWD/ckpt
    uvicorn dice:app --port 9311 &
    triocollect run -i dice.jsonl -o out.jsonl -r 64 -c 8 --checkpoint-dir ckpt --peer dice=http://127.0.0.1:9311

Told to stop (TERM), it takes a checkpoint; the same run goes on from it, once a fresh `uvicorn` has taken the
place of the old one: a server that has served cannot be restored into. `triocollect serve --peer` takes such
servers in, too. Behind an environment server of your own (`--environment-url`), name them to the run by
`--participant resources=URL`. `triocollect fuzz --participant resources=URL --checkpoint-dir ckpt` tries what
follows here on a server that runs, and names what it does not keep.

The three parts, for a server that keeps more than that:

**`Admission`**, the door that all work goes through. Work enters with the episode that it belongs to and says
what is under way for as long as a checkpoint must not cut it; where it has recorded all that its next step
needs, it stands at a *boundary* and can be cut. `Admitted` does this for whole requests.

**Hooks**: how the state at the boundaries is written down and taken up again. `Sessions` has them all for a
dict of plain data. A server with a state of its own derives from `Participant`, which answers whatever the
admission knows by itself, and overrides `export`, `install`, `discard`, `stop`, `forget`, `clear` and
`restored_pending`; `Hooks` says what each promises. Its `mode` is "restart_only" until you say otherwise:
whoever was served is told as a restart, which a continued run plays anew.

**`ControlPlane`** around the application, which speaks the protocol under `/checkpoint/v1`.

Work that lasts longer than a request should be cut moves between boundaries by itself::

    with admission.enter(episode, "a step is under way") as work:   # after asking `closed` and `refusal`
        while not finished:
            async with work.resting("a step is under way"):
                reply = await ask_the_model(conversation)   # may be asked again after a crash: never blocks
            conversation.append(reply)                      # nothing gets here while a checkpoint is open
            result = await call_the_tool(reply)             # must be finished before a cut: blocks
            conversation.append(result)
            await work.boundary("a step is under way")      # stands here while a checkpoint is open

What an author has to know:

- A `/run` with the header `x-continued: 1` goes on from a restored record; an environment server that has
  none of that attempt refuses it (`not_restored`), and plays nothing anew.
- Between `close` and `open` no state may change that `export` would show, but by work that blocks.
- A request that comes while closed waits in `admit`; only an environment's `/run` is refused
  (`checkpoint_open`), by asking `closed` after `end_expired_lease`. No timeout of yours may run while you
  are closed.
- The end of a session waits for nobody (`passing`): whoever closes one will not go on with it, so a cut
  that comes later does without. An episode whose session nobody closes keeps it as long as the server runs.
- After every wait ask again: `until_open` returns when the door is open, not when your attempt is still
  wanted. `admit` does that for you.
- A client that goes away while you are closed is noticed after the opening: nothing of a cut may change.
- A lease ends a pause whose collector died. Nobody watches it: whoever waits at the door ends it, once
  (`end_expired_lease`).
- States hold plain JSON types only; `encode_state` refuses what would not come back exactly as it was.
"""

from triocollect.participant.admission import Admission, Work
from triocollect.participant.admitted import Admitted
from triocollect.participant.base import Participant
from triocollect.participant.hooks import Hooks, episode_of
from triocollect.participant.plane import ControlPlane
from triocollect.participant.restoring import Restoring
from triocollect.participant.sessions import Sessions
from triocollect.participant.state import decode_state, encode_state
from triocollect.protocol.identity import episode_in
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Record
from triocollect.protocol.refusals import Refusal

__all__ = [
    "Admission",
    "Admitted",
    "ControlPlane",
    "EpisodeId",
    "Hooks",
    "Participant",
    "Record",
    "Refusal",
    "Restoring",
    "Sessions",
    "Work",
    "decode_state",
    "encode_state",
    "episode_in",
    "episode_of",
]
