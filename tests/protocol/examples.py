"""One example of every message and file, by the name of its golden."""

from msgspec import Raw

from triocollect.protocol import manifests, messages, refusals
from triocollect.protocol.files import RunFile
from triocollect.protocol.ids import EpisodeId

CALL = {"run": "4f2c", "epoch": 3, "operation": 7, "budget_ms": 270_000, "lease_ms": 600_000}
REPORT = messages.PrepareReport(
    blockers=(messages.Blocker("5-0", "a wait step is under way"),),
    blocker_count=1,
    restarts=("7-0-a1",),
    counts={"parked": 9},
)

EXAMPLES = {
    "hello": messages.Hello(**CALL),
    "prepare": messages.Prepare(**CALL),
    "commit": messages.Commit(
        **CALL,
        checkpoint_id="c-000012-9d",
        directory="ckpt-000012",
        scope=(EpisodeId("5-0"), EpisodeId("6-1", 2)),
        stop=True,
    ),
    "restore": messages.Restore(
        **CALL,
        checkpoint_id="c-000012-9d",
        directory="ckpt-000012",
        manifest_sha256="ab" * 32,
        scope=(messages.RestoredEpisode("5-0", 0, becomes=1),),
    ),
    "resume": messages.Resume(**CALL),
    "retire": messages.Retire(**CALL, episodes=(EpisodeId("5-0", 1),)),
    "forget": messages.Forget(**CALL, rollout_ids=("5-0", "6-1")),
    "goodbye": messages.Forget(**CALL, rollout_ids=(), goodbye=True),
    "capabilities_reply": messages.Capabilities(
        boot="b1", kind="resources", instance="counter", mode="exported"
    ),
    "status_reply": messages.Status(
        boot="b1",
        phase="preparing",
        operation=7,
        epoch=3,
        lease_expires=540_000,
        report=REPORT,
        restored_pending=2,
        served=True,
    ),
    "status_reply_needed": messages.Status(
        boot="b1",
        phase="open",
        operation=None,
        epoch=3,
        lease_expires=None,
        report=None,
        restored_pending=0,
        served=True,
        needed=True,
    ),
    "hello_reply": messages.Greeted(boot="b1", phase="open"),
    "place": messages.Seen(boot="b1", directory="/shared/ckpt", lock_sha256="ab" * 32),
    "place_unseen": messages.Seen(boot="b1", directory="/shared/ckpt", lock_sha256=None),
    "prepare_reply": messages.Prepared(boot="b1", phase="preparing", report=REPORT),
    "commit_reply": messages.Committed(
        boot="b1",
        phase="committed",
        manifest=messages.ManifestRef("ckpt-000012/participants/model/m/manifest.json", "cd" * 32, 2),
        exported=("5-0", "6-1-a2"),
        kept=("s-1",),
    ),
    "restore_reply": messages.Installed(boot="b1", phase="restored", installed=("5-0-a1",)),
    "resume_reply": messages.Resumed(boot="b1", phase="open"),
    "retire_reply": messages.Retired(boot="b1", retired=("5-0-a1",)),
    "forget_reply": messages.Forgotten(boot="b1", forgotten=("5-0", "6-1")),
    "refusal": refusals.RefusalBody(
        refusals.Refusal(
            code="stale_attempt", detail="attempt 1 is retired", phase="open", operation=7, retired_through=3
        )
    ),
    "record": manifests.Record(rollout_id="5-0", attempt=0, kind="agent", state=Raw(b'{"cursor":4}')),
    "manifest": manifests.Manifest(
        kind="agent",
        instance="agent",
        boot="b1",
        checkpoint_id="c-000012-9d",
        records=manifests.RecordsRef(f"records-{'ef' * 32}.jsonl", "ef" * 32, 2),
    ),
    "collection": manifests.Collection(
        checkpoint_id="c-000012-9d",
        sequence=12,
        epoch=3,
        run="4f2c",
        created="2026-01-02T03:04:05+00:00",
        input_sha256="01" * 32,
        continued=(EpisodeId("5-0"), EpisodeId("6-1", 2)),
        restarted=(manifests.Restarted("7-0", 1, reason="its agent cannot be captured"),),
        participants=(
            manifests.ParticipantRef(
                kind="agent",
                instance="agent",
                manifest="participants/agent/agent/manifest.json",
                sha256="ab" * 32,
                record_count=2,
            ),
        ),
    ),
    "latest": manifests.Latest("c-000012-9d", 12, "cd" * 32),
    "dispatch_header": manifests.DispatchHeader("4f2c", 3, 12, 4),
    "dispatched": manifests.Dispatched("6-1", 2),
    "lock": manifests.LockFile(run="4f2c", epoch=3, pid=4711, host="n1", started="2026-01-02T03:04:05+00:00"),
    "outcome": manifests.CheckpointOutcome(
        operation=7,
        checkpoint_id="c-000012-9d",
        published=True,
        continued=2,
        restarted=1,
        work_s=812.5,
        bytes=4096,
        phases_s={"prepare": 1.5, "commit": 0.25},
    ),
    "outcome_of_restarts": manifests.CheckpointOutcome(
        operation=8,
        checkpoint_id="c-000013-4b",
        published=True,
        restarted=3,
        phases_s={"prepare": 1.5},
        undelivered=0,
        restarted_why={"resources sql cannot capture it": 3},
        ended="2026-01-02T03:04:05+00:00",
    ),
    "outcome_of_losses": manifests.CheckpointOutcome(
        operation=8, checkpoint_id="c-000013-4b", published=True, restarted=3, lost_s=12.5
    ),
    "outcome_blocked": manifests.CheckpointOutcome(
        operation=9,
        checkpoint_id="c-000014-77",
        published=False,
        reason="not everything stood at a boundary within 300 s: agent waits for 6-1-a2 (in a tool)",
        phases_s={"prepare": 300.0},
        blockers=(messages.Blocker("6-1-a2", "in a tool"),),
        ended="2026-01-02T03:09:05+00:00",
    ),
    "run": RunFile(
        run="4f2c",
        created="2026-01-02T03:04:05+00:00",
        rows=120,
        rows_sha256="ab" * 32,
        fields={"input": "cd" * 32},
        drift=("model",),
    ),
    "run_with_checkpoints": RunFile(
        run="4f2c",
        created="2026-01-02T03:04:05+00:00",
        rows=120,
        rows_sha256="ab" * 32,
        fields={"input": "cd" * 32},
        checkpoints="9d",
        checkpoint_dir="/shared/ckpt",
        own_servers=False,
    ),
    "run_with_values": RunFile(
        run="4f2c",
        created="2026-01-02T03:04:05+00:00",
        rows=120,
        rows_sha256="ab" * 32,
        fields={"input": "cd" * 32},
        values={"input": "rows.jsonl", "limit": "none"},
    ),
}
