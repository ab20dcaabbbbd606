/// Trains a character-level language model on Tiny Shakespeare.

#include "support/run/train_program.h"

int main(int argc, char** argv) {
  return linnet::examples::train_program(
      argc, argv,
      {.name = "train_shakespeare",
       .tasks = {"shakespeare"},
       .description = "Trains a character-level language model on Tiny Shakespeare, or on another "
                      "text."});
}
