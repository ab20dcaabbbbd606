# Each examples/*.cpp is one program in bin/; what they share is the library linnet_examples.

linnet_require_package(CLI11 libcli11-dev)
linnet_require_package(PkgConfig pkg-config)
pkg_check_modules(CAIRO QUIET IMPORTED_TARGET cairo)
if(NOT CAIRO_FOUND)
  linnet_missing(cairo libcairo2-dev)
endif()

file(GLOB support_sources CONFIGURE_DEPENDS examples/support/*.cpp)
add_library(linnet_examples STATIC ${support_sources})
linnet_compile_settings(linnet_examples)
target_include_directories(linnet_examples PUBLIC ${PROJECT_SOURCE_DIR}/examples)
target_link_libraries(linnet_examples PUBLIC linnet::linnet CLI11::CLI11 PkgConfig::CAIRO fmt::fmt
                                             nlohmann_json::nlohmann_json)

file(GLOB program_sources CONFIGURE_DEPENDS examples/*.cpp)
foreach(source IN LISTS program_sources)
  cmake_path(GET source STEM program)
  add_executable(${program} ${source})
  linnet_compile_settings(${program})
  target_link_libraries(${program} PRIVATE linnet_examples)
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endforeach()
