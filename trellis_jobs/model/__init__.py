"""The domain model: jobs, their events and the rules that connect them. No I/O and no clock."""
