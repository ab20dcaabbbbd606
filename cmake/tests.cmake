# All tests are one executable, bin/linnet_tests.

linnet_require_package(doctest doctest-dev)

file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS tests/*.cpp)
add_executable(linnet_tests ${test_sources})
linnet_compile_settings(linnet_tests)
target_include_directories(linnet_tests PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_definitions(linnet_tests PRIVATE LINNET_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                                LINNET_TEST_DATA="${PROJECT_SOURCE_DIR}/tests"
                                                LINNET_BIN_DIR="${PROJECT_BINARY_DIR}/bin")
target_link_libraries(linnet_tests PRIVATE linnet_examples doctest::doctest ZLIB::ZLIB OpenMP::OpenMP_CXX)
set_target_properties(linnet_tests PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

add_test(NAME linnet_tests COMMAND linnet_tests)
