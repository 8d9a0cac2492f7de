# publish.sh: sourced after lib.sh. An image of the test's own, from a build context as plain tar
# packs it, with a digest it can be named by: built, pushed to a registry that lives as long as
# that takes, and kept in the Engine.

# publish NAME CONTEXT: REF is the image's NAME@sha256:..., for --image with --pull never.
publish() {
    local name=$1 context=$2 blobs=$WORK/publish.$1 registry address="" socket=${DOCKER_HOST#unix://} _
    mkdir -p "$blobs"
    "$B/tests/support/registry" --directory "$blobs" >"$blobs.address" 2>/dev/null & registry=$!
    for _ in $(seq 100); do
        address=$(head -n 1 "$blobs.address"); [ -z "$address" ] || break; sleep 0.05
    done
    tar -C "$context" -cf "$blobs.tar" .
    curl -s --unix-socket "$socket" -X POST -H 'Content-Type: application/x-tar' -T "$blobs.tar" \
        "http://d/v1.41/build?t=$address/$name:t&rm=1&forcerm=1" >"$blobs.log"
    curl -s --unix-socket "$socket" -X POST -H 'X-Registry-Auth: e30=' \
        "http://d/v1.41/images/$address/$name/push?tag=t" >>"$blobs.log"
    REF=$(engine "/images/$address/$name:t/json" | jq -r '.RepoDigests[0]')
    kill "$registry"; wait "$registry" 2>/dev/null
    PUBLISHED+=("$address/$name:t" "$REF")
    [[ $REF == *@sha256:* ]] || { cat "$blobs.log"; return 1; }
}
PUBLISHED=()

unpublish() { # all of them
    local name
    for name in "${PUBLISHED[@]}"; do
        curl -s -o /dev/null --unix-socket "${DOCKER_HOST#unix://}" -X DELETE "http://d/v1.41/images/$name"
    done
    PUBLISHED=()
}
