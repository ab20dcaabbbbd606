# `cmake --build build --target docs` makes the site in build/docs/html from the public headers, the READMEs, the
# derivations, the tutorial and the pages of this folder. It is part of the programs because it covers all
# directories.

find_program(LINNET_DOXYGEN doxygen)
find_program(LINNET_AWK awk)
find_program(LINNET_PYTHON python3)
find_path(LINNET_MATHJAX MathJax.js PATHS /usr/share/javascript/mathjax NO_DEFAULT_PATH)
set(lacking)
foreach(part DOXYGEN doxygen AWK mawk PYTHON python3 MATHJAX libjs-mathjax)
  if(part MATCHES "^[A-Z]+$")
    set(found ${LINNET_${part}})
  elseif(NOT found)
    list(APPEND lacking ${part})
  endif()
endforeach()
mark_as_advanced(LINNET_DOXYGEN LINNET_AWK LINNET_PYTHON LINNET_MATHJAX)

if(lacking)
  list(JOIN lacking ", " lacking)
  message(STATUS "linnet: without the target docs, which needs ${lacking} (./examples/install_packages.sh docs)")
  return()
endif()

add_custom_target(docs
  COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR} -D BUILD=${PROJECT_BINARY_DIR} -D VERSION=${PROJECT_VERSION}
          -D DOXYGEN=${LINNET_DOXYGEN} -D AWK=${LINNET_AWK} -D MATHJAX=${LINNET_MATHJAX}
          -P ${CMAKE_CURRENT_LIST_DIR}/make_site.cmake
  COMMAND ${LINNET_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/search_words.py ${PROJECT_BINARY_DIR}/docs/html
  COMMAND ${LINNET_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/check_links.py ${PROJECT_BINARY_DIR}/docs/html
  COMMENT "Making the site in docs/html"
  VERBATIM)
if(TARGET tutorial)  # its chapters write their pages
  add_dependencies(docs tutorial)
endif()
