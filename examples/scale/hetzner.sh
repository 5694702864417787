#!/bin/sh
# helix serve --scale 1-4 --scale-command examples/scale/hetzner.sh
#
# Workers as cloud servers, with Hetzner's CLI (hcloud, logged in). The image has the helix binary
# and a worker key at /etc/helix/worker.key, made by: helix key new --worker 'helix-*'. Other clouds differ in the two commands only.
set -eu
verb=$1
name=$2
case "$verb" in
start)
    config=$(mktemp)
    trap 'rm -f "$config"' EXIT
    cat >"$config" <<END
#cloud-config
runcmd:
  - systemd-run --unit helix helix worker --join $HELIX_JOIN --name $name --key /etc/helix/worker.key
END
    hcloud server create --name "$name" --type "${HELIX_TYPE:-ccx33}" \
        --image "${HELIX_IMAGE:-helix-worker}" --user-data-from-file "$config"
    ;;
stop)
    hcloud server delete "$name"
    ;;
*)
    echo "usage: $0 start|stop NAME" >&2
    exit 2
    ;;
esac
