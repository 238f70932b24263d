"""The worker protocol: records, directives and recovery of dead workers."""
