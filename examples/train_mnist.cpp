/// Trains an image classifier over patches on MNIST.

#include "support/run/train_program.h"

int main(int argc, char** argv) {
  return linnet::examples::train_program(argc, argv, "train_mnist", "mnist", "mnist-small",
                                         "Trains an image classifier over patches on MNIST, or on other images.");
}
