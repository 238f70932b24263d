-- The projection of the log. Everything here, except `filled_at` and removed_jobs, is a function of the
-- log up to `position`, so two projections of the same log are equal row by row, whenever and in
-- whatever batches they were made. Times are whole microseconds since 1970 (UTC).

-- schema_version; position, the log sequence up to which everything is taken in, and when the server
-- stored that message (position_stored_ns); stream_created, which log that is; filled_at, when the file
-- was made from the log, in microseconds: it does not know the jobs that retention removed before.
CREATE TABLE projection_metadata (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- One row per job: what lists are filtered and sorted by, and the whole job as JSON.
CREATE TABLE jobs_projection (
    job             INTEGER PRIMARY KEY,  -- the log sequence of the job's first event
    service         TEXT    NOT NULL,
    type            TEXT    NOT NULL,
    id              TEXT    NOT NULL,
    state           TEXT    NOT NULL,
    tries           INTEGER NOT NULL,
    max_tries       INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,     -- and not before created_at, whatever clocks said
    started_at      INTEGER,
    ended_at        INTEGER,
    deadline        INTEGER,
    next_attempt_at INTEGER,
    instance        TEXT,                 -- of the worker whose attempt owns it
    key             TEXT,
    key_hash        TEXT,
    error           TEXT,                 -- the last one's text, case folded
    error_values    INTEGER NOT NULL,     -- of a job with a cause: what differs in its error (error_patterns.py); else 0
    app_version     TEXT,                 -- of the worker that started its newest try
    cause           INTEGER NOT NULL,     -- of a job that its last error put where it is: a hash of its queue and the error's pattern; else 0
    last_sequence   INTEGER NOT NULL,     -- of its newest event, ignored ones included
    last_stored_at  INTEGER NOT NULL,     -- when the server stored that event, whatever the event says
    begun_at        INTEGER NOT NULL,     -- when it stored the job's first event
    moved_at        INTEGER NOT NULL,     -- when it stored the newest event that changed the job's status
    span            INTEGER NOT NULL,     -- the bits of moved_at - begun_at: 0, or how far apart they are
    due_at          INTEGER,              -- of a job in retry: when its next try is due, by the server's time
    lines           INTEGER NOT NULL,     -- log lines so far, in all runs
    document        TEXT    NOT NULL
);
CREATE UNIQUE INDEX jobs_by_address ON jobs_projection (id, service, type);

-- The newest log lines of each job, numbered from 1.
CREATE TABLE job_logs (
    job     INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    run     INTEGER NOT NULL,             -- runSeq of the run that said it
    at      INTEGER NOT NULL,
    level   TEXT    NOT NULL,
    message TEXT    NOT NULL,
    PRIMARY KEY (job, number)
) WITHOUT ROWID;

-- Values that a job can be found by, as hashes: the scalars of its payloads, each with its path, and the
-- request, the trace and the schedule that its runs come from.
CREATE TABLE job_values (
    hash INTEGER NOT NULL,
    job  INTEGER NOT NULL,
    PRIMARY KEY (hash, job)
) WITHOUT ROWID;

-- Counts of jobs of each kind, so that no query has to count them (counters.py).
CREATE TABLE job_counts (
    service TEXT    NOT NULL,
    type    TEXT    NOT NULL,
    state   TEXT    NOT NULL,
    jobs    INTEGER NOT NULL,
    PRIMARY KEY (service, type, state)
) WITHOUT ROWID;

-- By when they last changed: slots of ten minutes since 1970.
CREATE TABLE change_counts (
    slot    INTEGER NOT NULL,
    service TEXT    NOT NULL,
    type    TEXT    NOT NULL,
    state   TEXT    NOT NULL,
    jobs    INTEGER NOT NULL,
    PRIMARY KEY (slot, service, type, state)
) WITHOUT ROWID;

-- Of each key, how many jobs are not over, and how many of those run and wait.
CREATE TABLE key_counts (
    service  TEXT    NOT NULL,
    type     TEXT    NOT NULL,
    key_hash TEXT    NOT NULL,
    key      TEXT    NOT NULL,
    jobs     INTEGER NOT NULL,
    active   INTEGER NOT NULL,
    waiting  INTEGER NOT NULL,
    PRIMARY KEY (service, type, key_hash, key)
) WITHOUT ROWID;

-- Errors repeat: texts are looked for in these, not in those of all jobs.
CREATE TABLE error_counts (
    service TEXT    NOT NULL,
    type    TEXT    NOT NULL,
    state   TEXT    NOT NULL,
    cause   INTEGER NOT NULL,
    error   TEXT    NOT NULL,
    jobs    INTEGER NOT NULL,
    PRIMARY KEY (service, type, state, cause, error)
) WITHOUT ROWID;

-- Dead and failed jobs, and those that wait for their next try, by queue and error.
CREATE TABLE group_counts (
    cause   INTEGER NOT NULL,
    service TEXT    NOT NULL,
    type    TEXT    NOT NULL,
    state   TEXT    NOT NULL,
    jobs    INTEGER NOT NULL,
    PRIMARY KEY (cause, service, type, state)
) WITHOUT ROWID;

-- The same by what differs in their errors, which tells what texts may be found in them.
CREATE TABLE group_value_counts (
    cause        INTEGER NOT NULL,
    state        TEXT    NOT NULL,
    error_values INTEGER NOT NULL,
    jobs         INTEGER NOT NULL,
    PRIMARY KEY (cause, state, error_values)
) WITHOUT ROWID;

-- The same by the version of the application in which their newest try ran, if it has one.
CREATE TABLE group_version_counts (
    cause       INTEGER NOT NULL,
    state       TEXT    NOT NULL,
    app_version TEXT    NOT NULL,
    jobs        INTEGER NOT NULL,
    PRIMARY KEY (cause, state, app_version)
) WITHOUT ROWID;

-- The same by when they last changed: slots of that many minutes since 1970, of several lengths, so that
-- any time is the sum of few rows.
CREATE TABLE group_change_counts (
    minutes INTEGER NOT NULL,
    slot    INTEGER NOT NULL,
    cause   INTEGER NOT NULL,
    state   TEXT    NOT NULL,
    jobs    INTEGER NOT NULL,
    PRIMARY KEY (minutes, slot, cause, state)
) WITHOUT ROWID;

-- How many events of each kind that moves a job happened in which minute, for a day. Rows with an empty
-- service and type have the sums over all queues, also in the next table and in attempt_durations.
CREATE TABLE job_activity (
    minute  INTEGER NOT NULL,
    service TEXT    NOT NULL,
    type    TEXT    NOT NULL,
    kind    TEXT    NOT NULL,
    events  INTEGER NOT NULL,
    PRIMARY KEY (minute, service, type, kind)
) WITHOUT ROWID;

-- The same by whole hours since 1970, so that a day is the sum of few rows, for thirty days.
CREATE TABLE hourly_activity (
    hour    INTEGER NOT NULL,
    service TEXT    NOT NULL,
    type    TEXT    NOT NULL,
    kind    TEXT    NOT NULL,
    events  INTEGER NOT NULL,
    PRIMARY KEY (hour, service, type, kind)
) WITHOUT ROWID;

-- How many jobs entered and exited each state: by minutes for a day, and by hours and days for thirty
-- days (slots of that many minutes since 1970). What a state has now, without what changed since a
-- moment, is what it had then.
CREATE TABLE state_changes (
    minutes INTEGER NOT NULL,
    slot    INTEGER NOT NULL,
    service TEXT    NOT NULL,
    type    TEXT    NOT NULL,
    state   TEXT    NOT NULL,
    entered INTEGER NOT NULL,
    exited  INTEGER NOT NULL,
    PRIMARY KEY (minutes, slot, service, type, state)
) WITHOUT ROWID;

-- How many jobs of each state retention removed from this file, in the same slots. The log does not know.
CREATE TABLE removed_jobs (
    minutes INTEGER NOT NULL,
    slot    INTEGER NOT NULL,
    service TEXT    NOT NULL,
    type    TEXT    NOT NULL,
    state   TEXT    NOT NULL,
    jobs    INTEGER NOT NULL,
    PRIMARY KEY (minutes, slot, service, type, state)
) WITHOUT ROWID;

-- How long attempts waited for a worker ('wait') and ran ('run'), by the hour and the day in which that
-- ended, for thirty days. Buckets are those of durations.py.
CREATE TABLE attempt_durations (
    minutes  INTEGER NOT NULL,
    slot     INTEGER NOT NULL,
    service  TEXT    NOT NULL,
    type     TEXT    NOT NULL,
    phase    TEXT    NOT NULL,
    bucket   INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    PRIMARY KEY (minutes, slot, service, type, phase, bucket)
) WITHOUT ROWID;

-- The newest heartbeat of each worker; `seen_at` is the server's time, not the worker's. Those a day
-- older than the newest of all are gone.
CREATE TABLE worker_presence_projection (
    service      TEXT    NOT NULL,
    type         TEXT    NOT NULL,
    instance     TEXT    NOT NULL,
    seen_at      INTEGER NOT NULL,
    said_at      INTEGER NOT NULL,
    concurrency  INTEGER,
    version      TEXT,
    loop_blocked_ms INTEGER,
    contract     TEXT,
    clock_offset_ms INTEGER,
    PRIMARY KEY (service, type, instance)
) WITHOUT ROWID;

-- Events that were not legal where their job stood, and why they did not count.
CREATE TABLE ignored_events (
    sequence INTEGER PRIMARY KEY,
    service  TEXT NOT NULL,
    type     TEXT NOT NULL,
    id       TEXT NOT NULL,
    kind     TEXT NOT NULL,
    reason   TEXT NOT NULL
);

-- Events by which operators changed a job, one by one; those of operations are not here (operator_actions.py).
CREATE TABLE operator_actions (
    sequence  INTEGER PRIMARY KEY,
    stored_at INTEGER NOT NULL,           -- by the server's clock
    verb      TEXT    NOT NULL,
    service   TEXT    NOT NULL,
    type      TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    by        TEXT,
    reason    TEXT,
    request   TEXT
);

-- Messages under the log's subjects that are no events, kept aside for people to look at.
CREATE TABLE undecodable_messages (
    sequence INTEGER PRIMARY KEY,
    subject  TEXT NOT NULL,
    reason   TEXT NOT NULL,
    size     INTEGER NOT NULL  -- in bytes; what is in it may be secret
);
