"""`python -m triocollect.deployment.datasets` writes the shipped files again."""

from triocollect.deployment.datasets import NAMES, path
from triocollect.deployment.datasets.generate import lines

for name in NAMES:
    path(name).write_bytes(lines(name))
