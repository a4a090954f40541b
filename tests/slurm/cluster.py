"""A real Slurm of one node on loopback: key, ports and folders are its own, and nobody has to be root.

Partition `low` is the default one. A job in `high` preempts those in `low`: Slurm looks twice a minute whose
time is over, sends CONT and TERM to every process of such a job, and puts it back into the queue, where it
waits for two minutes unless somebody moves its start.
"""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
from pathlib import Path

from tests.processes.commands import until

DAEMONS = ("munged", "slurmctld", "slurmd")
PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))
OTHERS = ("SLURM", "SBATCH")  # settings of a cluster that the tests may run on
CONFIGURATION = """\
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
MailProg=/bin/true
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=here NodeHostname={host} NodeAddr=127.0.0.1 CPUs=1
PartitionName=low Nodes=here Default=YES PriorityTier=1 GraceTime=1
PartitionName=high Nodes=here PriorityTier=10 PreemptMode=OFF
"""


def missing():
    """The programs of Slurm that this machine does not have."""
    return [name for name in (*DAEMONS, "sbatch") if shutil.which(name, path=PLACES) is None]


class Cluster:
    """Started and stopped by whoever makes it; commands see only this one."""

    def __init__(self, folder: Path) -> None:
        """`folder` is empty, ours, and of a short name: a socket lies in it."""
        self.folder = folder
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
        self.environment = {**inherited, "PATH": PLACES, "SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons = []

    def start(self):
        for name in ("munge", "state", "spool"):
            (self.folder / name).mkdir(mode=0o700)
        key = self.folder / "munge/key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        names = {"host": socket.gethostname().partition(".")[0], "user": pwd.getpwuid(os.geteuid()).pw_name}
        configuration = CONFIGURATION.format(folder=self.folder, ports=_free_ports(2), **names)
        (self.folder / "slurm.conf").write_text(configuration)
        files = {"key": "key", "log": "log", "pid": "pid", "seed": "seed"}
        flags = [f"--{flag}-file={self.folder}/munge/{name}" for flag, name in files.items()]
        socket_file = self.folder / "munge/socket"
        self._start("munged", "--foreground", "--force", f"--socket={socket_file}", *flags)
        assert until(socket_file.exists), self.log("munged")
        self._start("slurmctld", "-D")
        self._start("slurmd", "-D", "-N", "here")
        assert until(lambda: "idle" in self.ask("sinfo", "-h", "-o", "%T")), self.log("slurmctld")

    def stop(self):
        """End every job, then the daemons."""
        with contextlib.suppress(subprocess.SubprocessError):
            self.run("scancel", "--signal=KILL", "--full", "--user", str(os.geteuid()))
            self.run("scancel", "--user", str(os.geteuid()))
            until(lambda: not self.ask("squeue", "-h"), 30)
        for daemon in reversed(self._daemons):
            daemon.terminate()
            daemon.wait(30)

    def _start(self, name, *flags):
        """A daemon that ends with us, however that comes about."""
        with (self.folder / f"{name}.out").open("wb") as log:
            daemon = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", shutil.which(name, path=PLACES), *flags],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._daemons.append(daemon)

    def log(self, name):
        return (self.folder / f"{name}.out").read_text(errors="replace")

    def ask(self, *command):
        """What a command prints; nothing where it fails."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else ""

    def run(self, *command, **settings):
        """What a command prints. Raises CalledProcessError where it fails."""
        settings = {"env": self.environment, **settings}
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, **settings).stdout


def _free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
