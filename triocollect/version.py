"""The version, for those who may not ask the door for it."""

from typing import Final

VERSION: Final = "0.1.0"
