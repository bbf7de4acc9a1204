#!/bin/sh
# Installs the packages of Debian that tests need, where that is possible: as root, with apt-get, HPCAI_NO_INSTALL unset.
#   install_packages.sh        all: Slurm, MPI, HPL, modules, and Chromium for the tests of pages
#   install_packages.sh mpi    MPI alone, which Horovod is compiled against
# Never fails: what needs a missing program is skipped and says so.

list_missing() {
    for program in $programs; do
        command -v "$program" > /dev/null || printf ' %s' "$program"
    done
    # Debian has the compiler's wrapper in another package than the header.
    mpicc -E -x c -include mpi.h /dev/null > /dev/null 2>&1 || printf ' mpi.h'
    [ "$1" = mpi ] || [ -e /usr/share/modules/init/sh ] || [ -n "${MODULESHOME:-}" ] || printf ' module'
}

install_all() {
    # shellcheck disable=SC2086
    apt-get install -y -qq --no-install-recommends $packages > /dev/null 2>&1
}

programs="mpirun mpicc"
packages="openmpi-bin libopenmpi-dev"
if [ "${1:-}" != mpi ]; then
    programs="slurmctld slurmd slurmdbd mariadbd munged $programs ip hpcc chromium"
    packages="$packages slurm-wlm slurmdbd mariadb-server munge iproute2 environment-modules hpcc libopenblas0-pthread chromium fonts-dejavu-core"
fi

PATH=$PATH:/usr/sbin:/sbin
missing=$(list_missing "${1:-}")
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && [ -z "${HPCAI_NO_INSTALL:-}" ] && command -v apt-get > /dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    echo "set-up: packages of Debian for the tests:$missing"
    install_all || { apt-get update -qq > /dev/null 2>&1 && install_all; }
    missing=$(list_missing "${1:-}")
fi
[ -z "$missing" ] || echo "tests/install_packages.sh: not installed:$missing; the tests that need it will be skipped" >&2
exit 0
