#!/bin/sh
# Once: makes the environment of {{ implementation }} from its lock file (Debian 12 or alike with Python 3.11, g++, make).
set -e
here=$(cd "$(dirname "$0")" && pwd)
make -C "$here/../{{ implementation }}" env{{ " DEVICE=cuda" if on_cuda }}
