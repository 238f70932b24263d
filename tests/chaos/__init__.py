"""Campaigns: a whole installation under faults that are drawn by a seed, and a verdict on its log.

`workload` and `faults` say what is done and what is done to it; `stage` has the servers, the ways
to them and the processes; `nemesis` carries the faults out; `evidence` collects what is left, and
`checker`, which is pure, decides. `python -m tests.chaos --help` runs one.
"""
