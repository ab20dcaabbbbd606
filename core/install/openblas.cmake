# Defines linnet::openblas when OpenBLAS is found; for the build, and for projects that find an installed linnet.
#
# Debian keeps each build of OpenBLAS in a folder of its own, and libopenblas.so in the usual folder is the one that the
# alternatives system picked. We look for the OpenMP build first, because it is serial inside our threads.

find_library(LINNET_OPENBLAS_LIBRARY NAMES openblas PATH_SUFFIXES openblas-openmp)
find_path(LINNET_OPENBLAS_INCLUDE_DIR NAMES cblas.h PATH_SUFFIXES openblas-openmp openblas)
mark_as_advanced(LINNET_OPENBLAS_LIBRARY LINNET_OPENBLAS_INCLUDE_DIR)

if(LINNET_OPENBLAS_LIBRARY AND LINNET_OPENBLAS_INCLUDE_DIR AND NOT TARGET linnet::openblas)
  add_library(linnet::openblas UNKNOWN IMPORTED)
  set_target_properties(linnet::openblas PROPERTIES IMPORTED_LOCATION ${LINNET_OPENBLAS_LIBRARY}
                                                    INTERFACE_INCLUDE_DIRECTORIES ${LINNET_OPENBLAS_INCLUDE_DIR})
endif()
