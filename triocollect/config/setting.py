"""What the table says of one setting."""

from typing import Final

from attrs import frozen

PREFIX: Final = "TRIOCOLLECT_"


@frozen
class Setting:
    """One flat setting. In a file it is called `name`, in the environment PREFIX and that in capitals."""

    name: str
    kind: object
    home: tuple[str, ...]  # (section, field), or (section, field, key of the map there)
    help: str
    group: str = ""  # the panel of --help; empty: no flag
    short: str = ""
    gym: tuple[str, ...] = ()  # other keys for the same value
    bare: str | None = None  # what the flag alone stands for
    nullable: bool = True  # null: as if it was not given
    metavar: str = ""

    @property
    def flag(self) -> str:
        """The long flag."""
        return "--" + self.name.replace("_", "-")
