#!/bin/bash
# One node: plugs a new network namespace into the bridge, then becomes the node's slurmd in namespaces of its own.
# Runs inside the namespaces of head.sh. Arguments: folder, name, address, "host", then the folders below /tmp that all nodes share.
set -euo pipefail
folder=$1 name=$2 address=$3
if [ "$4" = host ]; then
    # A new network namespace, because the old one may still hold the connections of a crashed node.
    ip link delete "$name" 2> /dev/null || true
    ip netns delete "$name" 2> /dev/null || true
    ip netns add "$name"
    hardware_address=$(printf '02:00:00:00:00:%02x' "${address##*.}")   # after a restart the others still know it
    ip link add "$name" type veth peer name eth0 address "$hardware_address" netns "$name"
    ip link set "$name" master bridge up
    ip -n "$name" link set lo up
    ip -n "$name" address add "$address/24" dev eth0
    ip -n "$name" link set eth0 up
    exec nsenter "--net=/run/netns/$name" \
        unshare --mount --uts --ipc --pid --fork --kill-child=KILL --mount-proc "$0" "$folder" "$name" "$address" inside "${@:5}"
fi
hostname "$name"
mount -t tmpfs tmpfs /dev/shm
mount --bind "$folder/etc" /etc/slurm
# The node's own /tmp, with the shared folders below it back in their places.
own=$folder/nodes/$name/tmp
for shared in "${@:5}"; do
    mkdir -p "$own/${shared#/tmp/}"
    mount --bind "$shared" "$own/${shared#/tmp/}"
done
mount --rbind "$own" /tmp
mount --bind "$folder/nodes/$name/scratch" "$folder/scratch"
cd /
slurmd -D -N "$name" -f "$folder/etc/slurm.conf" &
wait   # reaps what the daemon leaves; without slurmd there is no node
