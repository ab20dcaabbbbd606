# linnet_tests_emulated: the tests with the CUDA kernels on the CPU; see README.md. Included by tests/CMakeLists.txt.

# The sources are rewritten for the C++ compiler, and keep the paths by which they include each other.
set(emulation_dir ${PROJECT_BINARY_DIR}/emulation)
file(GLOB emulated_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cuda/*/*.cu ${PROJECT_SOURCE_DIR}/cuda/*/*.cuh)
set(rewrite ${CMAKE_CURRENT_LIST_DIR}/rewrite.sed)
foreach(source IN LISTS emulated_sources)
  cmake_path(GET source FILENAME name)
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE path)
  set(rewritten ${emulation_dir}/linnet/${path})
  cmake_path(GET rewritten PARENT_PATH folder)
  file(MAKE_DIRECTORY ${folder})
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/${name})  # replaces a file with PTX
    set(source ${CMAKE_CURRENT_LIST_DIR}/${name})
  endif()
  add_custom_command(OUTPUT ${rewritten}
                     COMMAND sed -E -f ${rewrite} ${source} > ${rewritten}
                     DEPENDS ${source} ${rewrite}
                     COMMENT "Rewriting ${path}"
                     VERBATIM)
  list(APPEND rewritten_sources ${rewritten})
  if(name MATCHES "\\.cu$")
    set_source_files_properties(${rewritten} PROPERTIES LANGUAGE CXX)
  endif()
endforeach()

# As on a GPU, products and sums are fused. The sanitizers find accesses that fault on a GPU, and indices beyond a tile.
add_library(linnet_cuda_emulated OBJECT EXCLUDE_FROM_ALL ${rewritten_sources}
                                                         ${PROJECT_SOURCE_DIR}/cuda/distributed/nccl.cpp)
linnet_compile_settings(linnet_cuda_emulated)
target_include_directories(linnet_cuda_emulated PRIVATE ${CMAKE_CURRENT_LIST_DIR} ${emulation_dir} ${include_dir})
target_include_directories(linnet_cuda_emulated SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_compile_definitions(linnet_cuda_emulated PRIVATE LINNET_CUBLAS_NAME="" LINNET_CUBLAS_PATH="" LINNET_NCCL_NAME="")  # see blas.cpp
target_compile_options(linnet_cuda_emulated PRIVATE
  -include emulation.h -O2 -march=native -ffp-contract=fast -fno-math-errno
  -fsanitize=alignment,bounds -fno-sanitize-recover=all -Wno-unknown-pragmas)  # nvcc's own

# The linker takes from linnet's archive only missing objects, and so none of the real kernels.
file(GLOB emulation_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
add_executable(linnet_tests_emulated EXCLUDE_FROM_ALL ${emulation_sources} $<TARGET_OBJECTS:linnet_tests>
                                                      $<TARGET_OBJECTS:linnet_cuda_emulated>)
linnet_program_settings(linnet_tests_emulated)
set_target_properties(linnet_tests_emulated PROPERTIES ENABLE_EXPORTS ON)
target_include_directories(linnet_tests_emulated PRIVATE ${PROJECT_SOURCE_DIR})
target_include_directories(linnet_tests_emulated SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
get_target_property(libraries linnet_tests LINK_LIBRARIES)
target_link_libraries(linnet_tests_emulated PRIVATE ${libraries})
target_link_options(linnet_tests_emulated PRIVATE -fsanitize=undefined)
