# The files that `cmake --install` installs, and the Debian packages that `cpack` makes of them: `linnet` has the
# programs, and `linnet-dev` the files for building C++ programs with linnet.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dev)

include(${CMAKE_CURRENT_LIST_DIR}/public_headers.cmake)
linnet_public_headers(${PROJECT_SOURCE_DIR} public_headers)
foreach(header IN LISTS public_headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/linnet/${folder})
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/nn/linnet.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/linnet)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/linnet)
# A shared library is in the package of the programs, which need it to run.
set(library_component dev)
if(LINNET_PROGRAMS)
  set(library_component programs)
endif()
target_include_directories(linnet INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS linnet EXPORT linnetTargets LIBRARY COMPONENT ${library_component} NAMELINK_COMPONENT dev)
install(EXPORT linnetTargets NAMESPACE linnet:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/linnetConfig.cmake.in ${PROJECT_BINARY_DIR}/linnetConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/linnetConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/linnetConfig.cmake ${PROJECT_BINARY_DIR}/linnetConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/openblas.cmake
        DESTINATION ${package_dir})
# A program that links a static linnet must also link the libraries that linnet needs. A shared linnet loads them
# itself.
if(NOT BUILD_SHARED_LIBS)
  set(LINNET_PC_REQUIRES "fmt zlib libpng")
  set(LINNET_PC_LIBS "${LINNET_OPENBLAS_LIBRARY} -fopenmp")
  if(LINNET_HAS_CUDA)
    string(APPEND LINNET_PC_LIBS " ${cudart} -ldl -lrt")
  endif()
endif()
# The prefix is relative to the .pc file, so that it is right wherever linnet is installed.
file(RELATIVE_PATH LINNET_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" LINNET_PC_PREFIX "${LINNET_PC_PREFIX}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/linnet.pc.in ${PROJECT_BINARY_DIR}/linnet.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/linnet.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Programs have plain names in a folder of their own. In bin/ their names begin with linnet-, such as linnet-sample for
# sample, so that they do not collide with those of other packages.
if(LINNET_PROGRAMS)
  list(REMOVE_ITEM LINNET_PROGRAM_TARGETS mlp lenet vae gan gpt gru regression factorization cartpole
       own_attention)  # examples for readers, which are not installed
  set(programs_dir ${CMAKE_INSTALL_LIBEXECDIR}/linnet)
  file(RELATIVE_PATH up ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_PREFIX})
  file(RELATIVE_PATH libraries ${CMAKE_INSTALL_PREFIX}/${programs_dir} ${CMAKE_INSTALL_FULL_LIBDIR})
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/links)
  foreach(program IN LISTS LINNET_PROGRAM_TARGETS)
    set_target_properties(${program} PROPERTIES INSTALL_RPATH $ORIGIN/${libraries})
    install(TARGETS ${program} DESTINATION ${programs_dir} COMPONENT programs)
    file(CREATE_LINK ${up}${programs_dir}/${program} ${PROJECT_BINARY_DIR}/links/linnet-${program} SYMBOLIC)
    install(FILES ${PROJECT_BINARY_DIR}/links/linnet-${program} DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
  endforeach()
endif()

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/linnet-dev RENAME copyright)
if(LINNET_PROGRAMS)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/linnet RENAME copyright
          COMPONENT programs)
endif()

# Where linnet is a part of another project, cpack belongs to that.
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_CONTACT "The linnet authors")
set(CPACK_COMPONENTS_ALL dev)
if(LINNET_PROGRAMS)
  list(PREPEND CPACK_COMPONENTS_ALL programs)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME linnet)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_DEPENDS fonts-dejavu-core)  # for the text in pictures
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_RECOMMENDS libopenblas0-openmp)  # serial inside our threads
if(LINNET_HAS_MPI)
  set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SUGGESTS openmpi-bin)  # loaded only if mpirun starts a program
endif()
set(CPACK_DEBIAN_DEV_PACKAGE_NAME linnet-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libopenblas-openmp-dev, zlib1g-dev, libpng-dev, libfmt-dev")
if(BUILD_SHARED_LIBS AND LINNET_PROGRAMS)
  string(APPEND CPACK_DEBIAN_DEV_PACKAGE_DEPENDS ", linnet (= ${PROJECT_VERSION})")
endif()
set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION "Programs that train and compare attention mechanisms")
set(CPACK_COMPONENT_DEV_DESCRIPTION "${PROJECT_DESCRIPTION}: files for building C++ programs")
include(CPack)
