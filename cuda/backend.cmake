# Builds the CUDA backend if a CUDA Toolkit is found, and otherwise the stub that replaces it. The project's
# CMakeLists.txt includes this file, so that the CUDA language is enabled for all targets that link CUDA code.

# Reports why CUDA is not built: an error for LINNET_CUDA=ON, a message for AUTO.
macro(linnet_without_cuda reason)
  if(LINNET_CUDA STREQUAL "ON")
    message(FATAL_ERROR "LINNET_CUDA=ON: ${reason}. Install a CUDA Toolkit 12 or 13 and name its compiler with "
                        "-DCMAKE_CUDA_COMPILER=/path/to/nvcc, or use LINNET_CUDA=AUTO or OFF")
  endif()
  message(STATUS "linnet: without CUDA: ${reason}")
  set(LINNET_HAS_CUDA FALSE)
endmacro()

set(LINNET_HAS_CUDA TRUE)
if(LINNET_CUDA STREQUAL "OFF")
  set(LINNET_HAS_CUDA FALSE)
endif()

# The compiler: CMAKE_CUDA_COMPILER, CUDACXX, or an nvcc that CMake finds.
if(LINNET_HAS_CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(LINNET_NVCC ${CMAKE_CUDA_COMPILER})
  elseif(DEFINED ENV{CUDACXX})
    set(LINNET_NVCC $ENV{CUDACXX})
  else()
    find_program(LINNET_NVCC nvcc HINTS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
    mark_as_advanced(LINNET_NVCC)
  endif()
  if(NOT LINNET_NVCC)
    linnet_without_cuda("no nvcc found")
  endif()
endif()

if(LINNET_HAS_CUDA)
  execute_process(COMMAND ${LINNET_NVCC} --version OUTPUT_VARIABLE nvcc_version ERROR_QUIET RESULT_VARIABLE nvcc_status)
  if(NOT nvcc_status EQUAL 0 OR NOT nvcc_version MATCHES "release ([0-9]+)\\.([0-9]+)")
    linnet_without_cuda("${LINNET_NVCC} does not tell its version")
  elseif(CMAKE_MATCH_1 LESS 12)
    linnet_without_cuda("${LINNET_NVCC} is of CUDA ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}, and 12 or 13 is needed")
  endif()
endif()

# Tries nvcc with this C++ compiler first, because enable_language is an error if they do not work together.
if(LINNET_HAS_CUDA AND NOT CMAKE_CUDA_HOST_COMPILER)
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
endif()
if(LINNET_HAS_CUDA AND NOT LINNET_NVCC_WORKS STREQUAL "${LINNET_NVCC} ${CMAKE_CUDA_HOST_COMPILER}")
  set(empty ${PROJECT_BINARY_DIR}/CMakeFiles/empty.cu)
  file(WRITE ${empty} "#include <string>\n")
  execute_process(COMMAND ${LINNET_NVCC} -ccbin ${CMAKE_CUDA_HOST_COMPILER} -std=c++17 -arch=sm_80 -c ${empty} -o ${empty}.o
                  OUTPUT_QUIET ERROR_VARIABLE nvcc_error RESULT_VARIABLE nvcc_status)
  if(nvcc_status EQUAL 0)
    set(LINNET_NVCC_WORKS "${LINNET_NVCC} ${CMAKE_CUDA_HOST_COMPILER}" CACHE INTERNAL "A pair of compilers that works")
  else()
    string(STRIP "${nvcc_error}" nvcc_error)
    linnet_without_cuda("${LINNET_NVCC} does not work with ${CMAKE_CUDA_HOST_COMPILER} (${nvcc_error})")
  endif()
endif()

if(LINNET_HAS_CUDA)
  set(CMAKE_CUDA_COMPILER ${LINNET_NVCC})
  # Machine code for the A100 and the H100 families, and PTX for newer families.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit QUIET)
  if(NOT TARGET CUDA::cublas OR NOT TARGET CUDA::cudart_static)
    linnet_without_cuda("the CUDA Toolkit of ${LINNET_NVCC} has no cuBLAS or no static runtime")
  endif()
endif()

if(LINNET_HAS_CUDA)
  message(STATUS "linnet: CUDA ${CUDAToolkit_VERSION}, for architectures ${CMAKE_CUDA_ARCHITECTURES}")
  file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cuda/*/*.cu)
  add_library(linnet_cuda OBJECT ${cuda_sources})
  # C++17, because CMake 3.25 does not know that nvcc 13 has C++20. Warnings are those of the other folders except
  # -Wpedantic, which warns about the code that nvcc generates for the C++ compiler.
  set_target_properties(linnet_cuda PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF
                                               POSITION_INDEPENDENT_CODE ON CUDA_VISIBILITY_PRESET hidden)
  target_include_directories(linnet_cuda PRIVATE ${include_dir})
  # With relaxed constexpr, kernels can call the constexpr functions of core/random/philox.h.
  target_compile_options(linnet_cuda PRIVATE --extended-lambda --expt-relaxed-constexpr
                                             -Xcompiler=-Wall,-Wextra,-Wshadow,-Wconversion,-Wno-sign-conversion
                                             $<$<BOOL:${LINNET_WERROR}>:-Werror=all-warnings -Xcompiler=-Werror>)
  target_include_directories(linnet_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  set_source_files_properties(
    ${PROJECT_SOURCE_DIR}/cuda/matmul/blas_library.cu PROPERTIES COMPILE_DEFINITIONS
    "LINNET_CUBLAS_NAME=\"libcublas.so.${CUDAToolkit_VERSION_MAJOR}\";LINNET_CUBLAS_PATH=\"${CUDA_cublas_LIBRARY}\"")
  target_sources(linnet PRIVATE $<TARGET_OBJECTS:linnet_cuda> ${PROJECT_SOURCE_DIR}/cuda/distributed/nccl.cpp)
  list(TRANSFORM CUDAToolkit_INCLUDE_DIRS PREPEND "-isystem" OUTPUT_VARIABLE toolkit_headers)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/cuda/distributed/nccl.cpp PROPERTIES
                              COMPILE_OPTIONS "${toolkit_headers}" COMPILE_DEFINITIONS "LINNET_NCCL_NAME=\"libnccl.so.2\"")
  # The target linnet needs the architectures too, because it links CUDA objects: without them CMake generates no
  # Makefiles. It was created before they were known.
  set_target_properties(linnet PROPERTIES CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}")
  # The CUDA runtime is linked into each program; cuBLAS is loaded when it is needed. The runtime is named by its path,
  # so that an installed linnet does not need the CMake package CUDAToolkit.
  get_target_property(cudart CUDA::cudart_static IMPORTED_LOCATION)
  target_link_libraries(linnet PRIVATE ${cudart} ${CMAKE_DL_LIBS} rt)
else()
  target_sources(linnet PRIVATE ${PROJECT_SOURCE_DIR}/cuda/stub.cpp)
endif()
