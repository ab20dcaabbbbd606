# The library target, linnet::linnet.

include(CheckCXXCompilerFlag)

# Rooms of the source tree under their include path, so that <linnet/core/tensor.h> is the same everywhere.
set(include_dir ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${include_dir}/linnet)
foreach(room core ops nn cuda)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${room} ${include_dir}/linnet/${room} SYMBOLIC)
endforeach()
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/nn/linnet.h ${include_dir}/linnet/linnet.h SYMBOLIC)

# What every target of the project is compiled with; nothing of it reaches a user's own targets.
function(linnet_compile_settings target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                                           $<$<BOOL:${LINNET_WERROR}>:-Werror>)
endfunction()

file(GLOB library_sources CONFIGURE_DEPENDS core/*.cpp ops/*.cpp nn/*.cpp nn/*/*.cpp)
file(GLOB kernel_sources CONFIGURE_DEPENDS ops/cpu/*.cpp)
list(REMOVE_ITEM kernel_sources ${PROJECT_SOURCE_DIR}/ops/cpu/dispatch.cpp ${PROJECT_SOURCE_DIR}/ops/cpu/blas.cpp)

add_library(linnet STATIC ${library_sources} ops/cpu/dispatch.cpp ops/cpu/blas.cpp cuda/stub.cpp)
add_library(linnet::linnet ALIAS linnet)
linnet_compile_settings(linnet)
target_include_directories(linnet PUBLIC $<BUILD_INTERFACE:${include_dir}>)
target_include_directories(linnet SYSTEM PRIVATE ${LINNET_OPENBLAS_INCLUDE_DIR})
target_link_libraries(linnet PRIVATE ${LINNET_OPENBLAS_LIBRARY} OpenMP::OpenMP_CXX ZLIB::ZLIB fmt::fmt
                                     nlohmann_json::nlohmann_json
                             PUBLIC Threads::Threads)
set_source_files_properties(core/build_info.cpp PROPERTIES COMPILE_DEFINITIONS LINNET_VERSION="${PROJECT_VERSION}")

# The CPU kernels, once per instruction set; ops/cpu/dispatch.cpp picks one set at run time. LINNET_ISA is the
# namespace that keeps the copies apart.
function(linnet_add_kernels isa)
  set(target linnet_kernels_${isa})
  add_library(${target} OBJECT ${kernel_sources})
  linnet_compile_settings(${target})
  target_include_directories(${target} PRIVATE ${include_dir})
  target_compile_definitions(${target} PRIVATE LINNET_ISA=${isa})
  target_compile_options(${target} PRIVATE -O3 -fopenmp-simd -ffp-contract=fast -fno-math-errno -fno-trapping-math
                                           ${ARGN})
  target_sources(linnet PRIVATE $<TARGET_OBJECTS:${target}>)
endfunction()

check_cxx_compiler_flag(-march=x86-64-v4 LINNET_COMPILER_KNOWS_X86_64_V4)
if(LINNET_COMPILER_KNOWS_X86_64_V4)
  linnet_add_kernels(baseline -march=x86-64)
  linnet_add_kernels(v3 -march=x86-64-v3)
  linnet_add_kernels(v4 -march=x86-64-v4 -mprefer-vector-width=512)
  set_source_files_properties(ops/cpu/dispatch.cpp PROPERTIES COMPILE_DEFINITIONS LINNET_X86_VARIANTS)
else()
  linnet_add_kernels(baseline)
endif()

# The project's own sources as text: what the programs train on when there is no data.
file(GLOB text_sources CONFIGURE_DEPENDS core/*.h core/*.cpp ops/*.h ops/*.cpp nn/*.h nn/*.cpp nn/*/*.h nn/*/*.cpp)
set(project_text ${PROJECT_BINARY_DIR}/project_text.cpp)
add_custom_command(
  OUTPUT ${project_text}
  COMMAND ${CMAKE_COMMAND} -D OUTPUT=${project_text} -P ${PROJECT_SOURCE_DIR}/cmake/project_text.cmake ${text_sources}
  DEPENDS ${text_sources} ${PROJECT_SOURCE_DIR}/cmake/project_text.cmake
  COMMENT "Packing the project's sources as text"
  VERBATIM)
set_source_files_properties(${project_text} PROPERTIES COMPILE_OPTIONS -Wno-overlength-strings)
target_sources(linnet PRIVATE ${project_text})
