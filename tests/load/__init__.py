"""High load: fifty connections, many jobs, a burst, a client that does not read, a stuck handler.

`stage` has the processes, `campaign` what is done to them, `memory` and `pickups` what it costs;
what is left is judged by the checker of `tests.chaos`. `python -m tests.load --help` runs it.
"""
