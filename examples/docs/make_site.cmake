# Makes the site: lists what it shows, writes Doxygen's configuration and the tree of pages, and runs Doxygen. It runs
# when the target `docs` is built, because the tutorial's pages do not exist before that.
cmake_minimum_required(VERSION 3.22)

set(docs ${SOURCE}/examples/docs)
set(OUTPUT ${BUILD}/docs)
file(REMOVE_RECURSE ${OUTPUT})
file(MAKE_DIRECTORY ${OUTPUT}/pages)

# ---- What it shows ----

include(${SOURCE}/core/install/public_headers.cmake)
linnet_public_headers(${SOURCE} headers)
# Leaves out a device's kernels, and functions that exist only so that the compiler rejects calls of them.
list(REMOVE_ITEM headers nn/linnet.h core/device/backend.h core/refused.h core/refused_members.h ops/refusals.h
                         nn/refused_members.h nn/refusals.h)

file(READ ${docs}/library.dox rooms)
foreach(header IN LISTS headers)
  cmake_path(GET header PARENT_PATH room)
  string(REPLACE "/" "_" group ${room})
  if(NOT rooms MATCHES "defgroup room_${group} ")
    message(FATAL_ERROR "make_site.cmake: library.dox has no title for ${room}: \\defgroup room_${group}")
  endif()
endforeach()

set(readmes core ops ops/cpu/attention ops/cpu/fastformer ops/cpu/fastmax ops/cpu/performer nn cuda cuda/attention
    cuda/fastformer cuda/fastmax tests tests/goldens tests/peers tests/cuda/emulation)
list(TRANSFORM readmes APPEND /README.md)
file(GLOB_RECURSE all_readmes RELATIVE ${SOURCE} ${SOURCE}/core/README.md ${SOURCE}/ops/README.md ${SOURCE}/nn/README.md
     ${SOURCE}/cuda/README.md ${SOURCE}/tests/README.md)
foreach(readme IN LISTS all_readmes)
  if(NOT readme IN_LIST readmes)
    message(FATAL_ERROR "make_site.cmake: ${readme} is not in the list of READMEs")
  endif()
endforeach()
set(house .github/CONTRIBUTING.md .github/SECURITY.md)
file(GLOB_RECURSE derivations RELATIVE ${SOURCE} ${SOURCE}/ops/*.md ${SOURCE}/nn/*.md)
list(FILTER derivations EXCLUDE REGEX "README\\.md$")
file(GLOB chapters ${BUILD}/tutorial/*.md)
list(SORT chapters)
foreach(chapter IN LISTS chapters)
  cmake_path(GET chapter STEM name)
  execute_process(COMMAND ${AWK} -f page.awk solutions/${name}.cpp WORKING_DIRECTORY ${SOURCE}/examples/tutorial
                  OUTPUT_VARIABLE text)
  string(REGEX REPLACE "^Solutions to the exercises of chapter ([0-9]+)\\.\n" "# Solutions of chapter \\1\n" text "${text}")
  string(REGEX REPLACE "\n([0-9]+)\\. " "\n**\\1.** " text "${text}")  # code between the items would end a list
  file(WRITE ${BUILD}/tutorial/solutions/${name}.md "${text}")
  list(APPEND solutions ${BUILD}/tutorial/solutions/${name}.md)
endforeach()
set(elsewhere from_pytorch from_libtorch from_jax from_mlx)
list(TRANSFORM elsewhere REPLACE "(.+)" "examples/docs/\\1.md")

# ---- The tree of pages ----

# The title and the reference of a page, as markdown.awk names it.
function(linnet_page path title_of id_of)
  cmake_path(ABSOLUTE_PATH path BASE_DIRECTORY ${SOURCE} OUTPUT_VARIABLE file)
  file(STRINGS ${file} heading REGEX "^# " LIMIT_COUNT 1 ENCODING UTF-8)
  string(REGEX REPLACE "^# +" "" title "${heading}")
  string(REGEX REPLACE "[`*]" "" title "${title}")
  string(REPLACE "&" "&amp;" title "${title}")
  string(REPLACE "\"" "&quot;" title "${title}")
  string(REPLACE "${BUILD}/" "" id "${path}")
  string(REGEX REPLACE "^examples/docs/" "" id "${id}")
  string(REGEX REPLACE "\\.md$" "" id "${id}")
  string(REGEX REPLACE "[^A-Za-z0-9]+" "_" id "${id}")
  string(REGEX REPLACE "^_" "" id "${id}")
  string(TOLOWER "${id}" id)
  set(${title_of} "${title}" PARENT_SCOPE)
  set(${id_of} ${id} PARENT_SCOPE)
endfunction()

# Adds a branch of the tree with these pages, and writes the page that lists them.
function(linnet_branch id title text)
  set(tabs "    <tab type=\"usergroup\" url=\"@ref ${id}\" title=\"${title}\">\n")
  set(list "# ${title} {#${id}}\n\n${text}\n\n")
  foreach(path IN LISTS ARGN)
    linnet_page(${path} page_title page_id)
    string(APPEND tabs "      <tab type=\"user\" url=\"@ref ${page_id}\" title=\"${page_title}\"/>\n")
    string(APPEND list "- @ref ${page_id}\n")
  endforeach()
  file(WRITE ${OUTPUT}/pages/${id}.md "${list}")
  set(BRANCHES "${BRANCHES}${tabs}    </tab>\n" PARENT_SCOPE)
endfunction()

set(BRANCHES)
if(chapters)
  linnet_branch(tutorial "Tutorial"
    "From a derivative by hand to attention on a GPU. Each chapter is a program that the build has run.

`cmake --build build --target tutorial` compiles and runs them all, from `examples/tutorial/`. A single chapter is the
target `chapter_NAME`:

    cmake --build build --target chapter_01_a_derivative_by_hand
    build/bin/tutorial/01_a_derivative_by_hand

To try a chapter outside this repository, leave out what it takes from `support/` and `tutorial/` (checks, times,
pictures, data), install linnet, and compile the chapter with the installed library:

    cmake --build build
    cmake --install build --prefix ~/linnet
    export PKG_CONFIG_PATH=~/linnet/lib/pkgconfig
    g++ -std=c++20 mine.cpp -o mine $(pkg-config --cflags --libs linnet) -lfmt

`cmake --install` builds nothing. If a program has not been built, it stops with \"cannot find\" and the program's name;
`--component dev` installs only the library, which `cmake --build build --target linnet` builds.

The exercises have @ref solutions." ${chapters})
  linnet_branch(solutions "Solutions" "The solutions to the tutorial's exercises, chapter by chapter." ${solutions})
endif()
string(APPEND BRANCHES "    <tab type=\"modules\" visible=\"yes\" title=\"Library\" intro=\"Each header, directory by directory. The search finds names by the beginning of each word.\"/>\n"
                       "    <tab type=\"usergroup\" url=\"@ref examples_readme\" title=\"Programs\">\n"
                       "      <tab type=\"user\" url=\"@ref own_attention\" title=\"An attention of your own\"/>\n"
                       "    </tab>\n")
file(READ ${SOURCE}/examples/own_attention.cpp own_attention)
file(WRITE ${OUTPUT}/pages/own_attention.md "# An attention of your own {#own_attention}

This is `examples/own_attention.cpp`, whose parts the [README](@ref readme_how-to-add-an-attention) explains. The functions
that it overrides are in `nn/attention/attention.h`.

```cpp
${own_attention}```
")
if(EXISTS ${docs}/papers.md)
  string(APPEND BRANCHES "    <tab type=\"user\" url=\"@ref papers\" title=\"Papers\"/>\n")
endif()
linnet_branch(coming_from "Coming from …" "The same work in another library and in linnet, side by side." ${elsewhere})
if(derivations)
  linnet_branch(derivations "Derivations" "The gradients that linnet computes by hand, step by step." ${derivations})
endif()
linnet_branch(inside "Inside linnet" "How linnet is made: the README of each directory."
              ${readmes} ${house})
configure_file(${docs}/layout.xml.in ${OUTPUT}/layout.xml @ONLY)

# ---- Doxygen ----

set(INPUTS)
file(GLOB pages ${OUTPUT}/pages/*.md ${docs}/*.md ${docs}/*.dox)
foreach(path IN LISTS headers readmes house derivations)
  list(APPEND INPUTS ${SOURCE}/${path})
endforeach()
list(APPEND INPUTS ${SOURCE}/README.md ${SOURCE}/examples/README.md ${pages} ${chapters} ${solutions})
list(TRANSFORM INPUTS REPLACE "(.+)" "\"\\1\"")
list(JOIN INPUTS " \\\n        " INPUTS)
set(IMAGES "\"${SOURCE}/examples/pictures\"")
set(has_tutorial)
if(chapters)
  set(has_tutorial 1)
  string(APPEND IMAGES " \"${BUILD}/tutorial\"")
endif()
list(JOIN headers " " header_list)
set(HEADER_FILTER "${AWK} -v root='${SOURCE}' -f '${docs}/headers.awk'")
set(MARKDOWN_FILTER "${AWK} -v root='${SOURCE}' -v build='${BUILD}' -v has_tutorial=${has_tutorial} -v headers='${header_list}' -f '${docs}/markdown.awk'")
configure_file(${docs}/Doxyfile.in ${OUTPUT}/Doxyfile @ONLY)
execute_process(COMMAND ${DOXYGEN} ${OUTPUT}/Doxyfile WORKING_DIRECTORY ${OUTPUT} RESULT_VARIABLE status)

# Doxygen links each name in code that linnet has too. A chapter that does not use linnet means functions of its own.
foreach(page IN LISTS chapters solutions)
  file(STRINGS ${page} uses_linnet REGEX "^using namespace linnet;" LIMIT_COUNT 1)
  if(NOT uses_linnet)
    linnet_page(${page} page_title page_id)
    file(READ ${OUTPUT}/html/${page_id}.html text)
    string(REGEX REPLACE "<a class=\"code[^>]*>([^<]*)</a>" "\\1" text "${text}")
    file(WRITE ${OUTPUT}/html/${page_id}.html "${text}")
  endif()
endforeach()

# The results of a search are separate pages, which have only this style.
file(APPEND ${OUTPUT}/html/search/search.css "
@media (prefers-color-scheme: dark) {
  body.SRPage, .SRPage .SREntry, .SRResult { background: #15191d; color: #dbe2e8; }
  a.SRSymbol, a.SRScope, a.SRSymbol:visited, a.SRScope:visited, .SRScope { color: #79b8ee; }
}
")

# ---- MathJax: the parts that SVG output of TeX needs ----

foreach(part MathJax.js extensions/tex2jax.js extensions/MathEvents.js extensions/TeX jax/input/TeX jax/element/mml
             jax/output/SVG/config.js jax/output/SVG/jax.js jax/output/SVG/autoload jax/output/SVG/fonts/TeX)
  cmake_path(GET part PARENT_PATH folder)
  file(COPY ${MATHJAX}/${part} DESTINATION ${OUTPUT}/html/mathjax/${folder} FOLLOW_SYMLINK_CHAIN)
endforeach()

if(status)
  message(FATAL_ERROR "make_site.cmake: Doxygen has warned: see above")
endif()
