"""The server that the page for authors shows, as a reader would copy it."""

import inspect
import textwrap

import triocollect.participant


def text_of_the_server() -> str:
    """The first indented block of the docstring."""
    page = inspect.getdoc(triocollect.participant)
    block = page.split("::\n\n", 1)[1]
    lines = []
    for line in block.splitlines():
        if line and not line.startswith("    "):
            break
        lines.append(line)
    return textwrap.dedent("\n".join(lines))
