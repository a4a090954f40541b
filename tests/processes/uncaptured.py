"""`python uncaptured.py NAME ACCOUNT [CHECKPOINTS]`: a counter of which no checkpoint can take anything.

With a folder for checkpoints it speaks the control protocol and says so (`restart_only`), the token being in
TRIOCOLLECT_CONTROL_TOKEN; without one it knows nothing of checkpoints. It tells its URL, and ends on TERM.
"""

import json
import os
import socket
import sys

from triocollect.servers.resources.counter import CounterSource
from triocollect.servers.serve import make_app, run_alone

if __name__ == "__main__":
    name, account, *checkpoints = sys.argv[1:]
    CounterSource.mode = "restart_only"
    settings = {"name": name, "source": "counter", "effects_file": account}
    if checkpoints:
        token = os.environ["TRIOCOLLECT_CONTROL_TOKEN"]
        settings["checkpoint"] = {"token": token, "directory": checkpoints[0], "instance": name}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        run_alone(make_app("resources", json.dumps(settings).encode()), f"fd://{listener.fileno()}")
