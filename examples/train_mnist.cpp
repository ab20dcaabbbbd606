/// Trains an image classifier over patches on MNIST.

#include "support/run/train_program.h"

int main(int argc, char** argv) {
  return linnet::examples::train_program(
      argc, argv,
      {.name = "train_mnist",
       .tasks = {"mnist"},
       .description = "Trains an image classifier over patches on MNIST, or on other images."});
}
