"""`python forgetful.py run …`: the command, as it would be if it synced nothing. Servers do as always."""

import os
import sys

if __name__ == "__main__":
    os.fsync = os.fstat
    from triocollect.__main__ import main

    sys.exit(main())
