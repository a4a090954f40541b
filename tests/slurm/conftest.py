"""One cluster for all tests here, where the machine has the programs."""

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster, missing
from tests.slurm.jobs import Job


@pytest.fixture(scope="session")
def cluster():
    if lacking := missing():
        pytest.skip(
            f"needs a real Slurm, and {', '.join(lacking)} cannot be found: install slurm-wlm and munge"
        )
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def job(cluster, tmp_path):
    """Not submitted yet."""
    job = Job(cluster, tmp_path)
    yield job
    job.close()
