"""When the tokens of a generation are there: a rate, a hand that can hold everything back, and the counts."""

import math
from typing import Final, final

import msgspec
import trio


@final
class Hold:
    """Held: nothing that was generated is handed out. Generation itself goes on."""

    def __init__(self, *, held: bool) -> None:
        self._released: trio.Event | None = trio.Event() if held else None

    @property
    def held(self) -> bool:
        return self._released is not None

    def hold(self) -> None:
        if self._released is None:
            self._released = trio.Event()

    def release(self) -> None:
        if self._released is not None:
            self._released.set()
            self._released = None

    async def released(self) -> None:
        """Returns without a checkpoint when nothing is held."""
        while self._released is not None:
            await self._released.wait()


@final
class Generation:
    """One answer being generated, from now on, at `tokens_per_s` (None: all of it is there at once).

    Its first `given` tokens were generated before. Frozen, it stands where it is, for a time or until it is
    thawed: nothing more is generated or handed out.
    """

    def __init__(self, tokens: int, tokens_per_s: float | None, hold: Hold, given: int = 0) -> None:
        self._tokens: Final = tokens
        self._given: Final = given
        self._rate: Final = tokens_per_s
        self._hold: Final = hold
        self._start = trio.current_time()  # as if it had never stood
        self._out = 0
        self._stands = self._until = self._start  # since when, and until when
        self._thawed = trio.Event()

    @property
    def finished(self) -> bool:
        """Whether all of it was handed out."""
        return self._out == self._tokens

    async def reach(self, tokens: int) -> None:
        """Wait until so many tokens can be handed out; none can be at once, even while held."""
        while not self.reached(tokens):
            if self._standing:
                with trio.move_on_at(self._until):
                    await self._thawed.wait()
            elif (due := self._due(tokens)) > trio.current_time():
                await trio.sleep_until(due)
            else:
                await self._hold.released()
        self._out = max(self._out, tokens)

    def reached(self, tokens: int) -> bool:
        """Whether `reach` would return at once."""
        late = self._standing or self._hold.held or self._due(tokens) > trio.current_time()
        return tokens == 0 or not late

    @property
    def _standing(self) -> bool:
        return self._until > trio.current_time()

    def _stood(self) -> float:
        """For how long it has stood since it was frozen the last time."""
        return min(trio.current_time(), self._until) - self._stands

    def _due(self, tokens: int) -> float:
        """When so many tokens are there, if it stands no longer than it has by now."""
        if self._rate is None:
            return self._start
        return self._start + self._stood() + max(0, tokens - self._given) / self._rate

    def freeze(self, until: float) -> None:
        """Stand still, until then on the clock of the event loop; never shorter than before."""
        if not self._standing:
            self._start += self._stood()
            self._stands, self._thawed = trio.current_time(), trio.Event()
        self._until = max(self._until, until)

    def thaw(self) -> None:
        """Go on. Harmless when it does."""
        self._until = min(self._until, trio.current_time())
        self._thawed.set()

    @property
    def there(self) -> int:
        """How many of the tokens exist by now."""
        return self._given + self.generated

    @property
    def generated(self) -> int:
        """How many tokens were generated here by now."""
        left = self._tokens - self._given
        if self._rate is None:
            return left
        # A clock that stands exactly at a token's deadline must count that token, whatever the rounding.
        ran = trio.current_time() - self._start - self._stood()
        return min(left, math.floor(ran * self._rate + 1e-6))


class Tally(msgspec.Struct):
    """What was asked and generated; `cancelled` calls ended because the caller went away."""

    calls: int = 0
    finished: int = 0
    cancelled: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def begin(self, input_tokens: int) -> None:
        self.calls += 1
        self.input_tokens += input_tokens

    def end(self, output_tokens: int, *, finished: bool) -> None:
        self.output_tokens += output_tokens
        self.finished += finished
        self.cancelled += not finished


@final
class Tallies:
    """The total, and a tally for each of the capture keys used last: there is no end to keys."""

    def __init__(self, keys_kept: int = 16_384) -> None:
        self.total: Final = Tally()
        self.by_key: Final[dict[str, Tally]] = {}  # the key that was used longest ago first
        self._most: Final = keys_kept

    def of(self, key: str | None) -> list[Tally]:
        """Those that a call with this key counts for."""
        if key is None:
            return [self.total]
        tally = self.by_key[key] = self.by_key.pop(key, Tally())
        if len(self.by_key) > self._most:
            del self.by_key[next(iter(self.by_key))]
        return [self.total, tally]
