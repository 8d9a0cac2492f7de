#!/usr/bin/env bash
# The registry room against a real Engine: what is pushed is pulled again by its digest.
. tests/integration/lib.sh

REPO=cfrunner-registry-test
api() { # api METHOD PATH [curl argument...]: status in $WORK/status, body in $WORK/body
    local method=$1 path=$2; shift 2
    curl -s -m 120 --unix-socket "${DOCKER_HOST#unix://}" -X "$method" "$@" -o "$WORK/body" -w '%{http_code}' \
        "http://d/v1.41$path" >"$WORK/status"
}
answers() { api "${@:2}"; [ "$(cat "$WORK/status")" = "$1" ] || { cat "$WORK/status" "$WORK/body"; return 1; }; }
streamed() { api "$@"; [ "$(cat "$WORK/status")" = 200 ] && ! grep -q errorDetail "$WORK/body" || { cat "$WORK/body"; return 1; }; }
stream_fails() { api "$@"; [ "$(cat "$WORK/status")" != 200 ] || grep -q errorDetail "$WORK/body"; }
auth() { printf '{"username":"%s","password":"%s"}' "$1" "$2" | base64 -w0 | tr '+/' '-_'; }
no_image() { answers 404 GET "/images/$1/json"; }

start() { # start [registry argument...]: ADDRESS and PID
    mkdir -p "$WORK/blobs"
    "$B/tests/support/registry" --directory "$WORK/blobs" "$@" >"$WORK/address" 2>"$WORK/registry.err" &
    PID=$!
    for _ in $(seq 50); do ADDRESS=$(head -n 1 "$WORK/address"); [ -z "$ADDRESS" ] || break; sleep 0.1; done
}
stop() { kill "$PID"; wait "$PID"; }
empty_folder() { [ -z "$(ls -A "$WORK/blobs")" ] || { ls "$WORK/blobs"; return 1; }; }

# An image of two layers' worth of bytes, from nothing.
mkdir -p "$WORK/root"; head -c 9000000 /dev/urandom >"$WORK/root/noise"; cp "$B/cf-init" "$WORK/root/"
tar -C "$WORK/root" -cf "$WORK/root.tar" .
check "the engine imports the image" streamed POST "/images/create?fromSrc=-&repo=$REPO&tag=t" -T "$WORK/root.tar" -H 'Content-Type: application/x-tar'

round_trip() { # round_trip NAME AUTH: push, untag, pull by digest, compare
    local name=$1 auth=$2 digest id
    id=$(engine "/images/$REPO:t/json" | jq -r .Id)
    check "$name: tag" answers 201 POST "/images/$REPO:t/tag?repo=$ADDRESS/$REPO&tag=t"
    check "$name: push" streamed POST "/images/$ADDRESS/$REPO/push?tag=t" -H "X-Registry-Auth: $auth"
    digest=$(jq -rs '[.[]|.aux?.Digest // empty] | last' "$WORK/body")
    check "$name: the push tells a digest" grep -qE '^sha256:[0-9a-f]{64}$' <(echo "$digest")
    check "$name: untag" answers 200 DELETE "/images/$ADDRESS/$REPO:t?noprune=1"
    api DELETE "/images/$ADDRESS/$REPO@$digest" # the push left this name behind
    answers 200 DELETE "/images/$REPO:t" >/dev/null || bad "$name: remove" "$(cat "$WORK/body")"
    check "$name: the image is gone" no_image "$id"
    check "$name: pull by digest" streamed POST "/images/create?fromImage=$ADDRESS/$REPO&tag=$digest" -H "X-Registry-Auth: $auth"
    check "$name: it is the same image" test "$(engine "/images/$ADDRESS/$REPO@$digest/json" | jq -r .Id)" = "$id"
    answers 201 POST "/images/$id/tag?repo=$REPO&tag=t" >/dev/null # for the next one
    answers 200 DELETE "/images/$ADDRESS/$REPO@$digest" >/dev/null
    check "$name: an unknown digest cannot be pulled" stream_fails POST \
        "/images/create?fromImage=$ADDRESS/$REPO&tag=sha256:$(printf '0%.0s' $(seq 64))" -H "X-Registry-Auth: $auth"
}

start
round_trip "open" "$(printf '{}' | base64 -w0)"
check "open: the program stops at SIGTERM" stop
check "open: no file is left" empty_folder

start --user run --password s3cret:word
round_trip "with credentials" "$(auth run s3cret:word)"
answers 201 POST "/images/$REPO:t/tag?repo=$ADDRESS/$REPO&tag=u" >/dev/null
check "a wrong password cannot push" stream_fails POST "/images/$ADDRESS/$REPO/push?tag=u" -H "X-Registry-Auth: $(auth run wrong)"
check "without credentials nobody can push" stream_fails POST "/images/$ADDRESS/$REPO/push?tag=u" -H "X-Registry-Auth: $(printf '{}' | base64 -w0)"
check "with a wrong password nobody can pull" stream_fails POST "/images/create?fromImage=$ADDRESS/$REPO&tag=t" -H "X-Registry-Auth: $(auth run wrong)"
answers 200 DELETE "/images/$ADDRESS/$REPO:u?noprune=1" >/dev/null
check "with credentials: the program stops at SIGTERM" stop
check "with credentials: no file is left" empty_folder

answers 200 DELETE "/images/$REPO:t" >/dev/null
check "the engine is as it was" test -z "$(engine '/images/json?all=1' | jq -r --arg r "$REPO" '.[] | select((.RepoTags // []) + (.RepoDigests // []) | any(contains($r))) | .Id')"
finish
