"""What a job's log and files show of its health, as diagnostics (`model.Diagnostic`).

Codes: `run-state` (always), `run-complete`, `stall-summary`, `timeout-exit`, `watchdog-starved`,
`core-anomaly`, `core-unreturned`, `ring-full`, `tensor-wait-timeout`, `fatal`, `terminate`,
`runtime-failed`, `machine-busy`, `missing-edge`, `flag-cycle`, `shared-log`, and those of `watchdogs`. The facts of all
say which job they are about (`facts.JobFacts`).
"""
