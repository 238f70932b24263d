#!/bin/sh
# Creates the report of yesterday: once, on however many hosts and however often this runs.
set -eu
day=$(date -u -d yesterday +%F)
exec trellis-jobs jobs create reports/nightly "{\"day\": \"$day\"}" \
    --app examples.nightly.app:service --id "nightly-$day" --if-new
