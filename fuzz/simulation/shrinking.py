"""The smallest story that still shows what a long one has shown."""

import time
from collections.abc import Callable, Iterator

import msgspec

from fuzz.simulation.story import Life, Story

_CHANGE = msgspec.structs.replace
_EVENTS = ("signals", "faults", "falls", "breaks", "disk")


def minimal(story: Story, shows: Callable[[Story], bool], seconds: float) -> Story:
    """Take things away, one at a time, for as long as it `shows` the same and there is time."""
    deadline = time.monotonic() + seconds
    smaller: Story | None = story
    while smaller is not None:
        story = smaller
        smaller = next(
            (one for one in _simpler(story) if time.monotonic() < deadline and shows(one)),
            None,
        )
    return story


def _simpler(story: Story) -> Iterator[Story]:
    for nth in range(len(story.lives)):
        yield _CHANGE(story, lives=story.lives[:nth] + story.lives[nth + 1 :])
    for nth, life in enumerate(story.lives):
        for one in _simpler_life(life):
            yield _CHANGE(story, lives=(*story.lives[:nth], one, *story.lives[nth + 1 :]))
    plain = Story(rows=max(1, story.rows - 1), tokens_per_s=None, changes=1)
    for name in plain.__struct_fields__:
        if name not in {"lives", "dice"} and getattr(plain, name) != getattr(story, name):
            yield _CHANGE(story, **{name: getattr(plain, name)})


def _simpler_life(life: Life) -> Iterator[Life]:
    for name in _EVENTS:
        events = getattr(life, name)
        for nth in range(len(events)):
            yield _CHANGE(life, **{name: events[:nth] + events[nth + 1 :]})
    for name in life.__struct_fields__:
        if name not in _EVENTS and getattr(life, name) != getattr(Life(), name):
            yield _CHANGE(life, **{name: getattr(Life(), name)})
