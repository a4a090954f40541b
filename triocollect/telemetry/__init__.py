"""Spans, metrics and a log of what a run and its servers do. Off unless asked for, and then it costs nothing.

Asked for by `--telemetry otlp` (spans and metrics go to where the OTEL_* variables say, over HTTP),
`--prometheus HOST:PORT` (metrics are scraped there) and `--log-json FILE` (JSON lines).

Traces. Each rollout has one trace, the same in every allocation, since its id is made of the run's and the
rollout's: a sampler by ratio keeps whole rollouts, and no trace holds the millions of spans of a large run.
What a run does for all of them is in a trace of its own, to which each row is linked.

| span | below | says |
|---|---|---|
| `run` | | one allocation |
| `restore` | `run` | what a start installs of a checkpoint |
| `checkpoint` | `run` | has a child for each phase: `checkpoint.prepare`, `.commit`, … |
| `retire` | `run` | attempts that are stopped and refused everywhere |
| `control.prepare`, `control.commit`, … | a phase, `restore`, `retire` | one call to one participant |
| `row` | | one row in one allocation; linked to its `run` |
| `attempt` | `row` | one send; linked to the attempt that it continues |
| `POST /run` and the like | whoever asked | one piece of work of a server |

Metrics: the table in `metrics.py`, each with the prefix `triocollect.`; never told apart by a rollout.

A store that is down, slow or answers badly delays the end alone, by a bounded time, and is told of once.
"""

from triocollect.telemetry.here import begin_run as begin_run
from triocollect.telemetry.here import carried as carried
from triocollect.telemetry.here import count as count
from triocollect.telemetry.here import span as span
from triocollect.telemetry.logs import bind as bind
from triocollect.telemetry.logs import bind_episode as bind_episode
from triocollect.telemetry.logs import during as during
