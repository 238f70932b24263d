# The command `trellis-jobs` for admin runtimes and workers. Your own service adds its code:
#
#   FROM trellis-jobs
#   COPY app.py .
#   CMD ["worker", "app:service"]

FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY trellis_jobs trellis_jobs
COPY jobs_admin jobs_admin
COPY pytest_trellis_jobs pytest_trellis_jobs
RUN python -m venv /opt/trellis-jobs \
 && /opt/trellis-jobs/bin/pip install --no-cache-dir --disable-pip-version-check '.[otel]' -c constraints.txt \
 && rm -rf /opt/trellis-jobs/lib/python3.11/site-packages/pip*

FROM python:3.11-slim
# Secrets come as files that only their owner reads: this is who that has to be.
ARG USER_ID=1000
RUN useradd --uid "$USER_ID" --no-create-home --home-dir /srv --shell /usr/sbin/nologin trellis \
 && install --directory --owner trellis --mode 0750 /var/lib/trellis
COPY --from=build /opt/trellis-jobs /opt/trellis-jobs
ENV PATH=/opt/trellis-jobs/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    TRELLIS_JOBS_HEALTH_PORT=8080 \
    TRELLIS_JOBS_HEALTH_HOST=0.0.0.0 \
    TRELLIS_JOBS_LOG_FORMAT=json
USER trellis
WORKDIR /srv
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/ready', timeout=4)"]
ENTRYPOINT ["trellis-jobs"]
CMD ["--help"]
