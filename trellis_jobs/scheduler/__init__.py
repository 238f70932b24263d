"""Delayed jobs and schedules: worker processes release and create jobs when alarms come."""
