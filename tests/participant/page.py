"""What the page for authors shows, as a reader would copy it: the server, and the commands that run it."""

import inspect
import os
import socket
import subprocess
import sys
import textwrap
from contextlib import contextmanager

import httpx

import triocollect.participant


def _blocks():
    """The indented blocks of the docstring that a `::` announces."""
    _, *after = inspect.getdoc(triocollect.participant).split("::\n\n")
    for text in after:
        lines = []
        for line in text.splitlines():
            if line and not line.startswith("    "):
                break
            lines.append(line)
        yield textwrap.dedent("\n".join(lines))


def text_of_the_server():
    """`dice.py`."""
    return next(_blocks())


def commands_of_the_page():
    """(What makes the rows, the run) as a shell takes them."""
    block = next(block for block in _blocks() if "uvicorn dice:app" in block)
    lines = block.strip().replace("\\\n", "").splitlines()
    return lines[0], lines[-1]


@contextmanager
def uvicorn(folder, root, token):
    """The page's server, which is in the folder, as its own process, and a client."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        command = [sys.executable, "-m", "uvicorn", "dice:app", "--no-use-colors"]
        command += ["--fd", str(listening.fileno())]
        environ = os.environ | {"TRIOCOLLECT_CONTROL_TOKEN": token, "CHECKPOINT_DIR": str(root)}
        with (folder / "uvicorn.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=folder, env=environ, pass_fds=[listening.fileno()], stdout=log, stderr=log
            )
    try:
        address = f"http://127.0.0.1:{port}"
        with httpx.Client(
            base_url=address, headers={"authorization": f"Bearer {token}"}, trust_env=False, timeout=60
        ) as client:
            yield client
    finally:
        process.kill()
        process.wait()
