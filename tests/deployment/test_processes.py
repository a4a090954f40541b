"""The embedded deployment as real processes."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import httpx
import pytest
import trio
import yaml
from attrs import evolve

from tests.processes.commands import until
from tests.servers.wired import COUNTER_ROW
from triocollect.config.settings import ServersConfig, TelemetryConfig
from triocollect.deployment import SOURCES, datasets, deploy, plan_for, processes, provisions, serve_all
from triocollect.errors import DeploymentError, UsageError

pytestmark = pytest.mark.processes

PATIENCE_S = 60

ROWS = {
    "exact_match": {"responses_create_params": {"input": "Repeat exactly: hi"}, "expected_answer": "hi"},
    "numeric": {"responses_create_params": {"input": "What is 3 + 4 * 5?"}, "expected_answer": 23},
    "counter": COUNTER_ROW,
    **{
        name: json.loads(datasets.path(name).read_bytes().splitlines()[0])
        for name in ("multiple_choice", "instructions", "json_schema", "blackjack", "sql")
    },
}

PARENT = """
import trio
from triocollect.config.settings import ServersConfig
from triocollect.deployment import plan_for, serve_all

trio.run(serve_all, plan_for(["counter"], ServersConfig()), lambda head: print(head, flush=True))
"""


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()] + [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        if task.name != str(pid)
        for child in (task / "children").read_text().split()
    ]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def all_gone(pids: list[int]) -> None:
    for pid in pids:
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        await trio.lowlevel.wait_readable(process)
        os.close(process)


def named(name: str, pids: list[int]) -> int:
    return next(pid for pid in pids if name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes())


@pytest.fixture
def parent():
    """A program that runs a deployment, and its children."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as program:
        head = program.stdout.readline().strip()
        try:
            yield program, head, children_of(program.pid)
        finally:
            program.kill()


async def test_a_row_of_each_source_runs_on_a_fresh_deployment():
    before = children_of(os.getpid())  # of other tests in this process
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery, httpx.AsyncClient(trust_env=False, timeout=None) as client:
            head = await nursery.start(deploy, plan_for(SOURCES, ServersConfig()))
            for source, row in ROWS.items():
                body = {**row, "task_source": source, "agent_ref": None}
                reply = await client.post(f"{head}/run", json=body)
                assert reply.status_code == 200, reply.text
                assert 0.0 <= reply.json()["reward"] <= 1.0
            for path in ("/", "/livez", "/readyz", "/healthz", "/health"):
                assert (await client.get(head + path)).json() == {"status": "ok"}
            children = [child for child in children_of(os.getpid()) if child not in before]
            nursery.cancel_scope.cancel()
    assert len(children) == 4 + len(SOURCES)
    assert not any(map(is_alive, children)), "deploy returns when its servers have ended"


async def test_every_server_process_takes_part_in_checkpoints_and_none_shows_the_token(tmp_path):
    plan = evolve(plan_for(["counter"], ServersConfig()), checkpoint_dir=tmp_path, control_token="s3cret")
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery, httpx.AsyncClient(trust_env=False, timeout=None) as client:
            head = await nursery.start(deploy, plan)
            found = set()
            for base in bases_of((await client.get(f"{head}/global_config_dict_yaml")).json()):
                url = f"{base}/checkpoint/v1/capabilities"
                assert (await client.get(url)).status_code == 401
                said = (await client.get(url, headers={"authorization": "Bearer s3cret"})).json()
                found.add((said["kind"], said["instance"]))
            shown = shown_of(children_of(os.getpid()))
            nursery.cancel_scope.cancel()
    kinds = {"environment": "environment", "agent": "agent", "model": "policy_model", "resources": "counter"}
    assert found == set(kinds.items())
    assert b"policy_model" in shown
    assert b"s3cret" not in shown


def bases_of(head_yaml: str) -> set[str]:
    """Where the servers are that a head names."""
    tree = yaml.safe_load(head_yaml)
    places = [place for name, entry in tree.items() if name != "head_server" for place in entry.values()]
    return {f"http://{at['host']}:{at['port']}" for place in places for at in place.values()}


def shown_of(pids: list[int]) -> bytes:
    """What anybody on the machine can read of processes."""
    return b"".join(
        Path(f"/proc/{pid}/{file}").read_bytes() for pid in pids for file in ("cmdline", "environ")
    )


async def test_a_parent_that_is_killed_leaves_no_server_behind(parent):
    program, _, children = parent
    assert len(children) == 5
    program.kill()
    with trio.fail_after(PATIENCE_S):
        await all_gone(children)


async def test_signals_to_the_whole_group_end_no_server_but_a_told_parent_ends_them(parent):
    program, head, children = parent
    for child in children:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            os.kill(child, number)
    async with httpx.AsyncClient(trust_env=False) as client:
        reply = await client.post(f"{head}/run", json=COUNTER_ROW)
    assert reply.status_code == 200
    program.terminate()
    with trio.fail_after(PATIENCE_S):
        await all_gone(children)
    assert program.wait(PATIENCE_S) == 0


async def test_a_client_that_hangs_up_ends_the_policy_call_behind_four_servers():
    async def the_worker(stream):
        """It has `/responses`, which it never answers, and nothing else."""
        async for data in stream:
            if b"/responses " in data and b"stream" in data:
                break
            status = b"400 Bad Request" if b"/responses " in data else b"404 Not Found"
            await stream.send_all(b"HTTP/1.1 %b\r\ncontent-length: 2\r\n\r\n{}" % status)
        else:
            return
        asked.set()
        assert await stream.receive_some() == b"", "the model server has hung up too"
        left.set()

    asked, left = trio.Event(), trio.Event()
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, the_worker, [listener])
            url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/v1"
            head = await nursery.start(deploy, plan_for(["counter"], ServersConfig(model_url=url)))
            async with httpx.AsyncClient(trust_env=False, timeout=None) as client:
                with trio.CancelScope() as scope:
                    nursery.start_soon(cancel_when, asked, scope)
                    await client.post(f"{head}/run", json=COUNTER_ROW)
                await left.wait()
            nursery.cancel_scope.cancel()


async def cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


async def test_a_server_that_dies_is_named_and_takes_the_deployment_down():
    async def kill_one(task_status):
        plan = plan_for(["counter"], ServersConfig())
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(deploy, plan, on_death=told.append))
            children.extend(child for child in children_of(os.getpid()) if child not in before)
            os.kill(named("policy_model", children), signal.SIGKILL)
            task_status.started()

    before = children_of(os.getpid())  # of other tests in this process
    children: list[int] = []
    told: list[DeploymentError] = []
    with trio.fail_after(PATIENCE_S), pytest.raises(ExceptionGroup) as group:
        async with trio.open_nursery() as nursery:
            await nursery.start(kill_one)
    (error,) = group.value.exceptions[0].exceptions
    assert isinstance(error, DeploymentError)
    assert str(error) == "the policy_model server ended (killed by signal 9)"
    assert told == [error]
    assert not any(map(is_alive, children))


async def test_a_server_that_cannot_start_is_told_in_its_own_words(tmp_path):
    plan = plan_for(["counter"], ServersConfig(), effects_dir=tmp_path / "missing")
    with (
        trio.fail_after(PATIENCE_S),
        pytest.raises(DeploymentError, match=r"the (counter|inference) server ended") as error,
    ):
        await deploy(plan)
    assert f"file {tmp_path}/missing/" in str(error.value)
    assert "Traceback" not in str(error.value)


FAILS_ON_IMPORT = """
import sys
if "environment" in sys.argv:
    sys.stderr.write("x" * 1_000_000)
    sys.exit(3)
sys.stdin.read()  # the others say nothing, until they are let go
"""


async def test_a_head_that_dies_at_its_start_is_told_by_its_own_few_last_words(tmp_path, monkeypatch):
    (tmp_path / "hypercorn").mkdir()
    (tmp_path / "hypercorn" / "__init__.py").write_text(FAILS_ON_IMPORT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with trio.fail_after(PATIENCE_S), pytest.raises(DeploymentError) as error:
        await deploy(plan_for(["counter"], ServersConfig()))
    first, last = str(error.value).split("\n")
    assert first == "the environment server ended (exit code 3); its last words:"
    assert set(last) == {"x"}
    assert len(last) == processes.TOLD_BYTES


STOPS_AS_ENVIRONMENT = """
import os, signal, sys
if "environment" in sys.orig_argv:
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_servers_that_are_still_starting_are_ended_by_a_signal(tmp_path, number):
    (tmp_path / "sitecustomize.py").write_text(STOPS_AS_ENVIRONMENT)
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, env=environ) as serving:
        try:
            assert until(lambda: any(map(is_stopped, children_of(serving.pid))))
            children = children_of(serving.pid)
            serving.send_signal(number)
            said, _ = serving.communicate(timeout=PATIENCE_S)
        finally:
            serving.kill()
    assert (serving.returncode, said) == (0, b"")
    assert not any(is_alive(child) for child in children)


async def test_servers_that_never_answer_are_ended_when_the_time_is_up(tmp_path, monkeypatch):
    (tmp_path / "hypercorn").mkdir()
    (tmp_path / "hypercorn" / "__init__.py").write_text("import sys; sys.stdin.read()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(processes, "START_TIMEOUT_S", 0.2)
    with trio.fail_after(PATIENCE_S), pytest.raises(DeploymentError, match=r"did not start within 0\.2 s"):
        await deploy(plan_for(["counter"], ServersConfig()))


async def test_a_server_that_is_slow_to_start_is_named_while_it_is_waited_for(tmp_path, monkeypatch, caplog):
    (tmp_path / "hypercorn").mkdir()
    (tmp_path / "hypercorn" / "__init__.py").write_text("import sys; sys.stdin.read()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(processes, "TELL_AFTER_S", 0.0)
    monkeypatch.setattr(processes, "START_TIMEOUT_S", 0.5)
    with trio.fail_after(PATIENCE_S), pytest.raises(DeploymentError):
        await deploy(plan_for(["counter"], ServersConfig()))
    [told] = [record.getMessage() for record in caplog.records if "waiting" in record.getMessage()]
    assert re.fullmatch(
        r"waiting for the environment server at http://127\.0\.0\.1:\d+ to start: "
        r"\d+ s so far, 0\.5 s at most",
        told,
    )


async def test_a_port_that_is_taken_is_refused_before_anything_is_started():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        plan = evolve(plan_for(["counter"], ServersConfig()), ports={"policy_model": port})
        with pytest.raises(UsageError, match=f"policy_model server cannot listen on 127.0.0.1:{port}"):
            await serve_all(plan, print)


async def test_a_port_of_metrics_that_is_taken_is_refused_before_anything_is_started():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        plan = plan_for(["counter"], ServersConfig())
        second = plan.processes[1].name
        plan = evolve(plan, telemetry=TelemetryConfig(prometheus=f"127.0.0.1:{port - 1}"))
        with pytest.raises(UsageError, match=f"the {second} server cannot be scraped at 127.0.0.1:{port}: "):
            await serve_all(plan, print)


async def test_a_missing_extra_is_answered_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(provisions, "find_spec", lambda name: None if name == "hypercorn" else object())
    with pytest.raises(UsageError, match=r"needs hypercorn: pip install 'triocollect\[servers\]'"):
        await deploy(plan_for(["counter"], ServersConfig()))
