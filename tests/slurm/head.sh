#!/bin/bash
# PID 1 of the cluster's own namespaces: the bridge between the nodes, munged and slurmctld.
# Whatever ends this process ends every daemon, node, job, mount and link of the cluster: the kernel sees to it.
# Argument: folder. Standard input: the network (three numbers) once the host's link is plugged in; its end ends the cluster.
set -euo pipefail
folder=$1
read -r network
mount -t tmpfs tmpfs /run   # `ip netns` keeps its names here: private, so none stays on the host
hostname head
mount --bind "$folder/etc/hosts" /etc/hosts
ip link set lo up
# A given hardware address: otherwise it changes with every node that is plugged in, and the others' packets go astray for seconds.
ip link add bridge address 02:00:00:00:00:01 type bridge
ip address add "$network.1/24" dev bridge
ip link set uplink master bridge up
ip link set bridge up
munged --force --key-file "$folder/munge/key" --socket "$folder/munge/munge.socket" \
    --pid-file "$folder/munge/munged.pid" --log-file "$folder/log/munged.log" --seed-file "$folder/munge/seed"
if [ -e "$folder/etc/slurmdbd.conf" ]; then
    "$(dirname "$0")/accounting.sh" "$folder" &> "$folder/log/accounting.log"
fi
slurmctld -D -f "$folder/etc/slurm.conf" &
read -r _ || true
