#!/bin/sh
# Installs what the tests in this folder, and those of HPL, need where that is possible: as root, with apt-get, and HPCAI_NO_INSTALL unset.
# Never fails: what needs a missing program is skipped and says so.

list_missing() {
    for program in slurmctld slurmd munged mpirun mpicc ip hpcc; do
        command -v "$program" > /dev/null || printf ' %s' "$program"
    done
    [ -e /usr/share/modules/init/sh ] || [ -n "${MODULESHOME:-}" ] || printf ' module'
}

install_all() {
    apt-get install -y -qq --no-install-recommends \
        slurm-wlm munge openmpi-bin libopenmpi-dev iproute2 environment-modules hpcc libopenblas0-pthread \
        > /dev/null 2>&1
}

PATH=$PATH:/usr/sbin:/sbin
missing=$(list_missing)
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && [ -z "${HPCAI_NO_INSTALL:-}" ] && command -v apt-get > /dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    install_all || { apt-get update -qq > /dev/null 2>&1 && install_all; }
    missing=$(list_missing)
fi
[ -z "$missing" ] || echo "tests/slurm/install.sh: not installed:$missing; the tests of Slurm or HPL that need it will be skipped" >&2
exit 0
