"""Cron and interval schedules: their ticks, and the jobs that are created for them."""

from __future__ import annotations
