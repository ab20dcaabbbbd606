/// Compares attention mechanisms on one task.

#include "support/run/compare.h"

int main(int argc, char** argv) { return linnet::examples::compare_program(argc, argv, {.name = "compare"}); }
