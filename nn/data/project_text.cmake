# Script: cmake -D OUTPUT=<file> -P project_text.cmake <sources>... writes a C++ source that holds the given ones as
# one string.

# Raw literals need no escaping, and adjacent ones are joined by the compiler.
set(literals "")
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE 5 ${last})
  file(READ ${CMAKE_ARGV${i}} text)
  string(APPEND literals "R\"linnet_text(${text})linnet_text\"\n")
endforeach()

file(WRITE ${OUTPUT} "\
namespace linnet::nn {

extern const char project_text[];
extern const unsigned long project_text_size;

const char project_text[] =
${literals};
const unsigned long project_text_size = sizeof(project_text) - 1;

}  // namespace linnet::nn
")
