"""Change many jobs with one command.

targets (which jobs) → preview (how many) → confirmation. Then, for jobs given by id: runner (one
request per job) → result; for jobs that match a filter: operation (the admin runtime does it).
"""
