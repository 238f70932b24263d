-- Every way that lists and sweeps take; made at the end of a rebuild, when they are cheapest.
-- Each costs whatever the log's events move in it, so there are no two for the same questions: a list
-- of one service is merged from its types and states (reads/jobs.py).
CREATE INDEX jobs_by_age      ON jobs_projection (created_at);
CREATE INDEX jobs_by_state    ON jobs_projection (state, created_at);
CREATE INDEX jobs_by_type     ON jobs_projection (service, type, state, created_at);
CREATE INDEX jobs_by_change   ON jobs_projection (state, updated_at, service, type, cause);
CREATE INDEX jobs_by_key      ON jobs_projection (key, created_at) WHERE key IS NOT NULL;
CREATE INDEX jobs_by_error
    ON jobs_projection (error, service, type, state, created_at, updated_at) WHERE error IS NOT NULL;
CREATE INDEX jobs_by_app_version
    ON jobs_projection (app_version, state, updated_at, service, type) WHERE app_version IS NOT NULL;
CREATE INDEX jobs_by_deadline ON jobs_projection (deadline)
    WHERE deadline IS NOT NULL AND state IN ('scheduled', 'pending', 'retry', 'active');
CREATE INDEX jobs_by_release  ON jobs_projection (next_attempt_at) WHERE state = 'scheduled';
CREATE INDEX jobs_by_rest     ON jobs_projection (state, last_stored_at)
    WHERE state IN ('pending', 'retry', 'active');
CREATE INDEX jobs_by_move     ON jobs_projection (state, moved_at, service, type);
CREATE INDEX jobs_by_span     ON jobs_projection (span, begun_at, moved_at, service, type) WHERE span > 0;
CREATE INDEX jobs_by_cause    ON jobs_projection (cause, state, updated_at, error) WHERE cause <> 0;
CREATE INDEX dead_by_id       ON jobs_projection (id, cause, updated_at) WHERE state = 'dead';
CREATE INDEX jobs_that_wait   ON jobs_projection (service, type, updated_at) WHERE state = 'pending';
CREATE INDEX values_by_job    ON job_values (job);
CREATE INDEX keys_by_waiters  ON key_counts (waiting DESC, active DESC, service, type, key, key_hash);
CREATE INDEX groups_by_jobs   ON group_counts (state, jobs DESC, service, type, cause);
CREATE INDEX actions_by_job   ON operator_actions (id, service, type);
CREATE INDEX ignored_by_job   ON ignored_events (id, service, type);
CREATE INDEX aside_by_subject ON undecodable_messages (subject);
CREATE INDEX workers_by_sight ON worker_presence_projection (seen_at);
