"""Stories that once showed a defect, made small, by what it was about."""

from typing import Final

ONCE_BROKEN: Final = {
    "what a worker of three kept of a rollout that another one of two goes on with": (
        '{"rows":1,"tokens_per_s":10.0,"lives":[{"signals":[[[8,"answers"],"TERM"]],"workers":{"policy_model":3}'
        '}],"changes":1,"dice":63911,"workers":{"policy_model":2}}'
    ),
    "a model that worked on for an episode that was over": (
        '{"rows":2,"tokens_per_s":null,"lives":[{"faults":[["peer",15,"unnoticed"],["peer",16,"late"]]}],'
        '"standing":true,"changes":1,"dice":10229}'
    ),
    "a row that goes on, and is refused as it arrives amid a checkpoint": (
        '{"rows":3,"concurrency":1,"tokens_per_s":10.0,"latency_ms":20,"control_ms":5,"lives":[{"signals":'
        '[[[2,"answers"],"USR1"],[[1326,"ms"],"INT"]]},{"signals":[[[3,"controls"],"ASK"]]}],"dice":60671}'
    ),
    "a server that hangs when it is asked where it stands": (
        '{"rows":1,"tokens_per_s":null,"lives":[{"faults":[["control",16,"hangs"]]}],"changes":1}'
    ),
    "a machine that slept while servers were restored": (
        '{"rows":1,"tokens_per_s":10.0,"control_ms":100,"lives":[{"signals":[[[6,"answers"],"INT"]]},'
        '{"leap":[988,"ms"]}],"changes":1,"dice":49473}'
    ),
    "a machine that slept between the deadline of the first resumes and their sending": (
        '{"rows":1,"tokens_per_s":null,"lives":[{"signals":[[[5,"answers"],"USR1"]],"falls":[[[24,"controls"],'
        '"counter",0,0]],"leap":[28,"controls"]}],"changes":1,"dice":47771}'
    ),
    "a row that comes to one of several workers when its run is long over": (
        '{"rows":1,"tokens_per_s":null,"lives":[{"faults":[["run",1,"stray"]]}],"standing":true,"changes":1,'
        '"dice":58694,"workers":{"environment":2,"agent":3,"counter":2}}'
    ),
    "a session that was closed while somebody worked in it for nobody": (
        '{"rows":1,"tokens_per_s":10.0,"lives":[{"faults":[["peer",3,"gateway after"]]}],"standing":true,'
        '"changes":1,"dice":10785}'
    ),
    "a disk so slow that each publish comes at the deadline": (
        '{"rows":1,"tokens_per_s":null,"lives":[{"faults":[["peer",2,"hangs"]],"slow_ms":5000,'
        '"every_s":1.0}],"changes":1,"dice":45259}'
    ),
    "a session whose end never arrived": (
        '{"rows":2,"tokens_per_s":null,"lives":[{"faults":[["peer",13,"hangs"],["run",1,"never arrives"]]}],'
        '"standing":true,"changes":1,"dice":35367}'
    ),
}
