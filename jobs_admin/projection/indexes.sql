-- One for every filter that lists offer; made after a rebuild, when they are cheapest.
CREATE INDEX jobs_by_age                ON jobs_projection (created_at, id);
CREATE INDEX jobs_by_state              ON jobs_projection (state, created_at, id);
CREATE INDEX jobs_by_service            ON jobs_projection (service, created_at, id);
CREATE INDEX jobs_by_service_and_state  ON jobs_projection (service, state, created_at, id);
CREATE INDEX jobs_by_type               ON jobs_projection (service, type, created_at, id);
CREATE INDEX jobs_by_type_and_state     ON jobs_projection (service, type, state, created_at, id);
CREATE INDEX jobs_by_key                ON jobs_projection (key, created_at, id) WHERE key IS NOT NULL;
CREATE INDEX jobs_by_end                ON jobs_projection (state, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX jobs_by_deadline           ON jobs_projection (deadline)
    WHERE deadline IS NOT NULL AND state IN ('pending', 'retry', 'active');
CREATE INDEX jobs_that_live             ON jobs_projection (state, updated_at)
    WHERE state IN ('pending', 'retry', 'active');
CREATE INDEX jobs_that_wait             ON jobs_projection (service, type, updated_at)
    WHERE state = 'pending';
CREATE INDEX values_by_job              ON payload_values (job);
