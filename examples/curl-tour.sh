#!/bin/sh
# What a trainer does with rolloutd, by curl alone: examples/curl-tour.sh [SERVER] [BACKEND]
set -eu
server=${1:-http://127.0.0.1:8006}
backend=${2:-http://127.0.0.1:8000}

# The first value of a field in a JSON document on stdin.
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" | head -n 1; }
call() { curl --silent --show-error --fail-with-body --header 'content-type: application/json' "$@"; }

echo "== add a backend"
call "$server/v1/backends" --data "{\"url\": \"$backend\"}"
echo

echo "== submit a group of 4, twice under one key"
task='{"n": 4, "sampling": {"max_tokens": 64}, "task": {"id": "apples", "handler": "math", "prompt": "Tom has 3 apples and buys 4. How many has he?", "answer": "7"}}'
key="tour-$$-$(date +%s)"
first=$(call "$server/v1/jobs" --header "idempotency-key: $key" --data "$task")
again=$(call "$server/v1/jobs" --header "idempotency-key: $key" --data "$task")
echo "$first"
[ "$first" = "$again" ] && echo "the same jobs both times"
job=$(echo "$first" | sed 's/.*"job_ids":\["\([^"]*\).*/\1/')

echo "== wait for the first of them"
call "$server/v1/jobs/$job?wait_s=60"
echo

echo "== its trajectory: ids, mask, log-probs"
call "$server/v1/jobs/$job/trajectory"
echo

echo "== cancel another job"
slow='{"task": {"id": "slow", "handler": "math", "prompt": "Count to a million.", "answer": "1000000"}, "sampling": {"max_tokens": 1024}}'
other=$(call "$server/v1/jobs" --data "$slow" | sed 's/.*"job_ids":\["\([^"]*\).*/\1/')
call --request POST "$server/v1/jobs/$other/cancel"
echo

echo "== the results log, from the place this trainer has committed"
call --request PUT "$server/v1/consumers/tour" --data '{"committed": 1}'
echo
committed=$(call "$server/v1/consumers" | field committed)
call "$server/v1/results?after=$committed&wait_s=10&format=none"
echo
