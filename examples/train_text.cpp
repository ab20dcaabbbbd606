/// Trains a character-level language model on a text: train_shakespeare by another name.

#include "support/run/train_program.h"

int main(int argc, char** argv) {
  return linnet::examples::train_program(argc, argv,
                                         {.name = "train_text",
                                          .tasks = {"shakespeare"},
                                          .description = "Trains a character-level language model on a text."});
}
