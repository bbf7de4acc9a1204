#!/bin/sh
# CMake for a Horovod with NCCL, as horovod_cmake.sh. The library finds NCCL's wheel beside itself, in whatever
# environment it is installed; by itself CMake would write down the folder of links that it was built with.
if [ "$1" != --build ]; then
    # shellcheck disable=SC2016  # the loader replaces $ORIGIN
    set -- "$@" -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON '-DCMAKE_INSTALL_RPATH=$ORIGIN/../../nvidia/nccl/lib'
fi
exec "$(dirname "$0")/horovod_cmake.sh" "$@"
