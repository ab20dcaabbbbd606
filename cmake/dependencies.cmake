# What the library needs. A missing library is reported with the Debian package that holds it.

function(linnet_missing what package)
  message(FATAL_ERROR "${what} not found. Install the package ${package}, for example with\n"
                      "  ./examples/install_packages.sh build test")
endfunction()

# A macro, because imported targets are visible only in the scope that found them.
macro(linnet_require_package name package)
  find_package(${name} QUIET)
  if(NOT ${name}_FOUND)
    linnet_missing(${name} ${package})
  endif()
endmacro()

linnet_require_package(OpenMP "g++ (or libomp-dev, for clang)")
linnet_require_package(Threads libc6-dev)
linnet_require_package(ZLIB zlib1g-dev)
linnet_require_package(fmt libfmt-dev)
linnet_require_package(nlohmann_json nlohmann-json3-dev)

# Debian keeps each build of OpenBLAS in a folder of its own, and libopenblas.so in the usual folder is whichever
# the alternatives system picked. The OpenMP build is searched first: it shares our thread pool.
find_library(LINNET_OPENBLAS_LIBRARY NAMES openblas PATH_SUFFIXES openblas-openmp)
find_path(LINNET_OPENBLAS_INCLUDE_DIR NAMES cblas.h PATH_SUFFIXES openblas-openmp openblas)
mark_as_advanced(LINNET_OPENBLAS_LIBRARY LINNET_OPENBLAS_INCLUDE_DIR)
if(NOT LINNET_OPENBLAS_LIBRARY OR NOT LINNET_OPENBLAS_INCLUDE_DIR)
  linnet_missing("OpenBLAS (libopenblas, cblas.h)" libopenblas-openmp-dev)
endif()
message(STATUS "linnet: OpenBLAS is ${LINNET_OPENBLAS_LIBRARY}")
