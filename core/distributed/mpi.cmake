# Builds the messages between processes by MPI if MPI is found, and otherwise the stub that replaces them. The library
# is loaded at run time, so the build needs only its headers and its name. The project's CMakeLists.txt includes this
# file.

set(LINNET_HAS_MPI FALSE)
if(NOT LINNET_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX ON)  # only the C functions
  find_package(MPI QUIET COMPONENTS CXX)
  # The library with MPI's functions is libmpi in Open MPI and Intel MPI, and libmpich in MPICH.
  foreach(name IN LISTS MPI_CXX_LIB_NAMES)
    if(name MATCHES "^(mpi|mpich)$")
      set(LINNET_HAS_MPI TRUE)
      set(mpi_library ${MPI_${name}_LIBRARY})
    endif()
  endforeach()
  set(mpi_lacks "no MPI was found; install the packages openmpi-bin and libopenmpi-dev, or mpich and libmpich-dev")
  if(NOT MPI_CXX_FOUND)
    set(LINNET_HAS_MPI FALSE)
  elseif(NOT MPI_CXX_LIB_NAMES)
    string(CONCAT mpi_lacks "the C++ compiler is MPI's wrapper, which hides the library; give the compiler itself as "
                            "CMAKE_CXX_COMPILER")
  endif()
  if(NOT LINNET_HAS_MPI AND LINNET_MPI STREQUAL "ON")
    message(FATAL_ERROR "LINNET_MPI=ON: ${mpi_lacks}, or use LINNET_MPI=AUTO or OFF")
  endif()
endif()

if(LINNET_HAS_MPI)
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${mpi_library} OUTPUT_VARIABLE mpi_headers ERROR_QUIET)
  if(mpi_headers MATCHES "SONAME +([^ \n]+)")
    set(mpi_name ${CMAKE_MATCH_1})
  else()
    cmake_path(GET mpi_library FILENAME mpi_name)
  endif()
  message(STATUS "linnet: MPI is ${mpi_library}")
  target_sources(linnet PRIVATE core/distributed/mpi.cpp)
  target_include_directories(linnet SYSTEM PRIVATE ${MPI_CXX_INCLUDE_DIRS})
  target_link_libraries(linnet PRIVATE ${CMAKE_DL_LIBS})
  set_source_files_properties(
    core/distributed/mpi.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON COMPILE_DEFINITIONS
    "LINNET_MPI_NAME=\"${mpi_name}\";LINNET_MPI_PATH=\"${mpi_library}\";OMPI_SKIP_MPICXX;MPICH_SKIP_MPICXX")
else()
  if(NOT LINNET_MPI STREQUAL "OFF")
    message(STATUS "linnet: programs run as one process, because ${mpi_lacks}")
  endif()
  target_sources(linnet PRIVATE core/distributed/stub.cpp)
endif()
