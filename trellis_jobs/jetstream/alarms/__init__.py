"""The streams JOBS_ALARMS_<service>: alarms of delayed jobs and of schedules."""
