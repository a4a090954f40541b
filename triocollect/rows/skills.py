"""A folder of agent skills: what is stamped onto rows as `skills_ref` (as Gym 0.7.0 does it)."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from triocollect.config.regular import read_regular
from triocollect.errors import ConfigError
from triocollect.protocol.values import Json, JsonObject
from triocollect.rows.source import locate

_FENCE: Final = "---"
_HASH_DIGITS: Final = 12


class Skills(NamedTuple):
    """The skills of a run. `path` is what was given, `digest` 12 hex digits over names and contents."""

    path: str
    digest: str
    described: tuple[JsonObject, ...]  # name, description, version of each

    @property
    def reference(self) -> JsonObject:
        """The value of a row's `skills_ref`."""
        return {"path": self.path, "hash": self.digest, "skills": list(self.described)}

    @property
    def names(self) -> str:
        """`alpha, beta`."""
        return ", ".join(str(skill["name"]) for skill in self.described)


def load_skills(path: Path) -> Skills:
    """Read a folder with one folder per skill, each with a `SKILL.md`. Raises ConfigError."""
    if (text := os.fsencode(path).decode(errors="replace")) != str(path):
        raise _fault(f"{text} is not UTF-8, and rows have to name it")
    folder = locate(path)
    try:
        if not folder.is_dir():
            raise _fault(f"{folder} is not a folder; it must hold one folder per skill")
        skills = tuple(_describe(each) for each in sorted(folder.iterdir()) if each.is_dir())
        if not skills:
            raise _fault(f"{folder} holds no skills; each is a folder with a SKILL.md")
        return Skills(str(path), _digest(folder), skills)
    except OSError as error:
        raise _fault(f"cannot read {error.filename or folder}: {error.strerror}") from None


def _digest(folder: Path) -> str:
    digest = sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(os.fsencode(file.relative_to(folder).as_posix()) + b"\0")
        digest.update(read_regular(file) + b"\0")
    return digest.hexdigest()[:_HASH_DIGITS]


def _describe(skill: Path) -> JsonObject:
    file = skill / "SKILL.md"
    if not file.is_file():
        raise _fault(f"{skill} has no SKILL.md")
    front = _front_matter(file)
    name, description, metadata = front.get("name"), front.get("description"), front.get("metadata")
    if not name:
        raise _fault(f"{file}: the front matter has no `name`")
    if not isinstance(description, str | None):
        raise _fault(f"{file}: `description` must be a text")
    version = metadata.get("version") if isinstance(metadata, dict) else None
    return {
        "name": str(name),
        "description": description,
        "version": None if version is None else str(version),
    }


def _front_matter(file: Path) -> JsonObject:
    lines = read_regular(file).decode("utf-8-sig", errors="replace").splitlines()
    fences = [number for number, line in enumerate(lines) if line.strip() == _FENCE]
    if len(fences) < 2 or fences[0] != 0:  # noqa: PLR2004  # one above and one below
        raise _fault(f"{file} must begin with YAML front matter between two lines of {_FENCE}")
    try:
        front: Json = yaml.safe_load("\n".join(lines[1 : fences[1]]))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _fault(f"{file}: the front matter is not YAML: {error}") from None
    if not isinstance(front, dict):
        raise _fault(f"{file}: the front matter must be a mapping")
    return front


def _fault(message: str) -> ConfigError:
    return ConfigError(f"skills.path: {message}")
