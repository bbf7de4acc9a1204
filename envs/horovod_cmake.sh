#!/bin/sh
# CMake as Horovod's setup.py calls it (HOROVOD_CMAKE), with what costs time and serves nobody left out: debug
# information (57 MB of it) and a second Gloo, which no library is linked with. Optimisation stays as Horovod sets it.
if [ "$1" = --build ]; then
    shift 2
    exec cmake --build . --target tensorflow "$@"
fi
exec cmake "$@" "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O3 -DNDEBUG"
