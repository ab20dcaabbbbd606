/// Trains a character-level language model on a text: train_shakespeare by another name.

#include "support/run/train_program.h"

int main(int argc, char** argv) {
  return linnet::examples::train_program(argc, argv, "train_text", "shakespeare", "nanogpt-cpu",
                                         "Trains a character-level language model on a text.");
}
