"""One participant over the wire, asked as a collector asks it: control calls, and the work of episodes."""

import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias, final

import anyio
import httpx
import msgspec
from anyio.abc import TaskGroup

from triocollect.conformance.meeting import Met
from triocollect.conformance.reply import Reply
from triocollect.conformance.work import Work, Works
from triocollect.errors import BrokenPromiseError, UntriedError
from triocollect.protocol.identity import CALL_ID, Sender
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import PREFIX, Committed, Prepared, Status

BUDGET_MS: Final = 20_000  # of every call that does not say otherwise: a busy machine is no broken promise
LEASE_MS: Final = 40_000
PATIENCE_S: Final = 15.0  # beyond any budget: who has not answered by then does not
OF_A_TEST: Final = "conformance-"  # so all names begin that a test brings with it
WAITING_S: Final = 0.5  # a request without an answer for so long waits

_ONE_PROCESS: Final = (
    "boot {}, as in every reply before, for nobody started it anew. Either it died, which its log tells, or "
    "several processes serve this port, each with a state of its own: serve in one (uvicorn --workers 1)"
)

Restart: TypeAlias = Callable[[], Awaitable[None]]


@final
class Peer:
    """A participant that is put to the test, and who puts it there: a run of its own, in epochs of its own.

    `patience_s`: for one piece of work. `directory`: the checkpoint directory, where it can be seen from
    here. `restart` returns when another process serves in place of this one. `token` is what the participant
    was started with.
    """

    def __init__(  # noqa: PLR0913  # what is known of somebody else's server
        self,
        client: httpx.AsyncClient,
        url: str,
        token: str,
        met: Met,
        works: Works,
        *,
        patience_s: float,
        directory: Path | None = None,
        restart: Restart | None = None,
    ) -> None:
        self.url: Final = url
        self.token: Final = token
        self.capabilities: Final = met.capabilities
        self.works: Final = works
        self.patience_s: Final = patience_s
        self.directory: Final = directory
        self.restart: Final = None if restart is None else self._anew
        self._start_anew: Final = restart
        self._boot: str | None = met.capabilities.boot  # of the process that answers, once it has
        self.name: Final = f"{OF_A_TEST}{secrets.token_hex(4)}"
        self.epoch = met.status.epoch
        self.operation = 0
        self.episodes: Final[list[EpisodeId]] = []  # that work was asked for
        self.folders: Final[list[str]] = []  # that commits were told to write into
        self._client: Final = client
        self._idle = False  # its work does not succeed

    # -- control calls --------------------------------------------------------------------------------------

    async def call(self, verb: str, operation: int | None = None, /, **fields: object) -> Reply:
        """POST a call with the common fields; those that are given replace or join them."""
        common: dict[str, object] = {
            "run": self.name,
            "epoch": self.epoch,
            "operation": self.operation if operation is None else operation,
            "budget_ms": BUDGET_MS,
            "lease_ms": LEASE_MS,
        }
        said = common | fields
        asked = f"POST {verb} of operation {said['operation']}, epoch {said['epoch']}"
        return await self.raw("POST", verb, msgspec.json.encode(said), asked=asked)

    async def status(self) -> Status:
        """GET status."""
        return (await self.raw("GET", "status")).done(Status)

    async def raw(
        self, method: str, route: str, body: bytes | None = None, *, asked: str = "", token: str | None = ""
    ) -> Reply:
        """Any control call. `token` is shown in place of the right one; None: none is.

        Each has a connection of its own: one that stays leads to the same process of several every time.
        Raises BrokenPromiseError where another process answers than before.
        """
        shown = self.token if token == "" else token
        headers = {"connection": "close"}
        if shown is not None:
            headers["authorization"] = f"Bearer {shown}"
        said = asked or f"{method} {route}"
        try:
            with anyio.fail_after(BUDGET_MS / 1000 + PATIENCE_S):
                reply = await self._exchange(method, f"{PREFIX}/{route}", body, headers, said)
        except TimeoutError:
            expected = f"an answer within the budget of {BUDGET_MS / 1000:g} s"
            raise BrokenPromiseError(asked=said, answered="nothing", expected=expected) from None
        if (boot := reply.boot) is not None:
            self._boot = self._boot or boot
            reply.must(boot == self._boot, _ONE_PROCESS.format(self._boot))
        return reply

    async def begin(self) -> Reply:
        """Greet as a collector of the next epoch: whatever was tried before is over."""
        self.epoch, self.operation = self.epoch + 1, 1
        return await self.call("hello", 0)

    async def prepared(self, operation: int | None = None) -> Prepared:
        """Close it. Raises UntriedError where it is at work for somebody else."""
        reply = await self.call("prepare", operation)
        answer = reply.done(Prepared)
        if answer.phase == "preparing" and answer.report.blockers:
            blocker = answer.report.blockers[0]
            raise UntriedError(f"it is not idle: {blocker.key or 'something'}: {blocker.why}")
        reply.must(answer.phase == "prepared", "phase prepared: nothing is under way")
        return answer

    def cut(self, *episodes: EpisodeId, operation: int | None = None) -> dict[str, object]:
        """What a commit says beyond the common fields."""
        number = self.operation if operation is None else operation
        folder = f"{self.name}-{self.epoch:04}-{number:02}"
        if folder not in self.folders:
            self.folders.append(folder)
        return {"checkpoint_id": folder, "directory": folder, "scope": episodes, "stop": False}

    async def committed(self, *episodes: EpisodeId) -> Committed:
        """Prepare and commit these episodes."""
        await self.prepared()
        return (await self.call("commit", **self.cut(*episodes))).done(Committed)

    # -- work -----------------------------------------------------------------------------------------------

    def episode(self) -> EpisodeId:
        """One that nobody has heard of."""
        self.episodes.append(EpisodeId(f"{self.name}-{len(self.episodes)}"))
        return self.episodes[-1]

    @property
    def sender(self) -> Sender | None:
        """For whom it works. An environment tells others, who may know other collectors: for nobody."""
        return None if self.works.kind == "environment" else Sender(self.name, self.epoch)

    async def work(self, work: Work) -> Reply:
        """Ask for work, however long it takes."""
        asked = f"POST {work.path}"
        if rollout := work.headers.get("x-rollout-id"):
            asked += f" for {rollout}, attempt {work.headers['x-rollout-attempt']}"
        headers = {"content-type": "application/json", **work.headers}
        return await self._exchange("POST", work.path, work.body, headers, asked)

    async def worked(self, episode: EpisodeId, *, epoch: int | None = None, continued: bool = False) -> Reply:
        """Ask for work of an episode while no checkpoint is open.

        Raises BrokenPromiseError where no answer comes, UntriedError for an environment: a rollout may last.
        """
        sender = self.sender if epoch is None else Sender(self.name, epoch)
        return await self.answered(self.works.of(episode, sender, continued=continued))

    async def answered(self, work: Work) -> Reply:
        """What `work` brings within the patience. Raises what `worked` does."""
        try:
            with anyio.fail_after(self.patience_s):
                return await self.work(work)
        except TimeoutError:
            pass
        asked = f"POST {work.path} while no checkpoint is open"
        expected = f"an answer within {self.patience_s:g} s (--patience)"
        if self.works.kind != "environment":
            raise BrokenPromiseError(asked=asked, answered="nothing", expected=expected)
        self._idle = True
        raise UntriedError(f"{asked} needs {expected}: give a shorter row")

    async def served(self) -> EpisodeId:
        """An episode that it has done work for. Raises UntriedError where it cannot do any."""
        if self._idle:
            raise UntriedError("no work that it is asked for succeeds, as is told above")
        episode = self.episode()
        try:
            reply = await self.worked(episode)
        except BrokenPromiseError as error:
            self._idle = True
            raise UntriedError(f"{error.asked} brought no answer") from None
        if not reply.success:
            self._idle = True
            raise UntriedError(
                f"{reply.asked} has to succeed, and was answered {reply.answered}: give a row that the "
                "server can play (--input), or another route (--work)"
            )
        return episode

    async def _anew(self) -> None:
        """Return when another process serves. Raises UntriedError."""
        assert self._start_anew is not None
        await self._start_anew()
        before, self._boot = self._boot, None
        if (await self.status()).boot == before:
            raise UntriedError("the restart brought no other process: its boot is the same")

    async def _exchange(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], asked: str
    ) -> Reply:
        try:
            response = await self._client.request(method, self.url + path, content=body, headers=headers)
        except httpx.RequestError as error:
            answered = f"nothing: {str(error) or type(error).__name__}"
            raise BrokenPromiseError(asked=asked, answered=answered, expected="an answer") from error
        return Reply(asked, response.status_code, response.content, response.headers.get(CALL_ID))


@final
class UnderWay:
    """A request in a task of its own."""

    def __init__(self, tasks: TaskGroup, ask: Callable[[], Awaitable[Reply]]) -> None:
        self._ask: Final = ask
        self._ended: Final = anyio.Event()
        self._result: Reply | BrokenPromiseError | None = None
        tasks.start_soon(self._run)

    async def reply(self, seconds: float) -> Reply | None:
        """Its answer, if that comes within so many seconds. Raises BrokenPromiseError."""
        with anyio.move_on_after(seconds):
            await self._ended.wait()
        if isinstance(self._result, BrokenPromiseError):
            raise self._result
        return self._result

    async def _run(self) -> None:
        try:
            self._result = await self._ask()
        except BrokenPromiseError as error:
            self._result = error
        finally:
            self._ended.set()
