"""Change many jobs with one command.

targets (which) → look (how many) → consent, then for jobs that are named: sweep (each of them) →
tally (what became of them); for jobs that match a filter: operation (the admin runtime does it)
"""
