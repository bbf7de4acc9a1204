#!/bin/bash
# The accounting of the cluster: MariaDB and slurmdbd, with the user's accounts in it before slurmctld starts.
# Runs inside the namespaces of head.sh. Argument: folder.
set -euo pipefail
folder=$1
export SLURM_CONF=$folder/etc/slurm.conf
data=$folder/db
mariadb-install-db --no-defaults --user=root --datadir="$data" --auth-root-authentication-method=normal --skip-test-db
mariadbd --no-defaults --user=root --datadir="$data" --socket="$data/socket" --pid-file="$data/pid" --bind-address=127.0.0.1 \
    --port=3306 --innodb-use-native-aio=0 --innodb-lock-wait-timeout=900 --innodb-buffer-pool-size=64M &
query() { mariadb --no-defaults --user=root --socket="$data/socket" --execute "$1"; }
until query "SELECT 1"; do sleep 0.2; done
query "CREATE DATABASE slurm_acct_db; CREATE USER slurm@localhost IDENTIFIED BY 'test'; GRANT ALL ON slurm_acct_db.* TO slurm@localhost"
# slurmdbd looks for its settings beside slurm.conf.
slurmdbd -D &
until sacctmgr --noheader list cluster; do sleep 0.2; done
sacctmgr --immediate add cluster hpcai
sacctmgr --immediate add account bench,teaching
sacctmgr --immediate add user root account=bench,teaching defaultaccount=teaching
sacctmgr --immediate modify user root where account=bench set maxwall=30 maxsubmit=5
sacctmgr --immediate modify user root where account=teaching set maxtres=node=1
