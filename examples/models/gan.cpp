/// A generative adversarial network on MNIST: a generator learns to draw digits that look real to a discriminator,
/// while the discriminator learns to tell them from real ones.
///
///     build/bin/gan data/mnist       # 4 epochs, and both losses after each
///     build/bin/gan data/mnist 1     # 1 epoch
///
/// Draws gan.png after each epoch: digits from random noise, the same each time.
///
/// Source: Goodfellow et al. 2014, "Generative adversarial nets"; with convolutions and batch normalisation, Radford
/// et al. 2016, "Unsupervised representation learning with deep convolutional generative adversarial networks".

#include <cstdlib>
#include <iostream>
#include <string>

#include <linnet/linnet.h>

#include "support/plot/image_sheet.h"
using namespace linnet;

constexpr int64_t kNoise = 64;  // random numbers from which an image is made
constexpr int64_t kBatch = 64;
constexpr double kMaxLr = 1e-3;

/// [B, kNoise] → images [B, 1, 28, 28], -1 for black to 1 for white
struct ImageGenerator : nn::Module {
  explicit ImageGenerator(Generator& rng) : Module(rng) {}
  nn::Linear fc{*this, "fc", kNoise, 64 * 7 * 7};
  nn::BatchNorm2d norm1{*this, "norm1", 64};
  nn::ConvTranspose2d conv1{*this, "conv1", 64, 32, 4, {.stride = 2, .padding = 1}};
  nn::BatchNorm2d norm2{*this, "norm2", 32};
  nn::ConvTranspose2d conv2{*this, "conv2", 32, 1, 4, {.stride = 2, .padding = 1}};

  Tensor operator()(const Tensor& noise) const {
    Tensor x = relu(norm1(fc(noise).reshape({-1, 64, 7, 7})));
    x = relu(norm2(conv1(x)));  // [B, 32, 14, 14]
    return tanh(conv2(x));
  }
};

/// Images [B, 1, 28, 28] → logits [B, 1], above 0 for images that seem real
struct Discriminator : nn::Module {
  explicit Discriminator(Generator& rng) : Module(rng) {}
  nn::Conv2d conv1{*this, "conv1", 1, 16, 4, {.stride = 2, .padding = 1}};
  nn::Conv2d conv2{*this, "conv2", 16, 32, 4, {.stride = 2, .padding = 1}};
  nn::BatchNorm2d norm{*this, "norm", 32};
  nn::Linear fc{*this, "fc", 32 * 7 * 7, 1};

  Tensor operator()(const Tensor& images) const {
    Tensor x = leaky_relu(conv1(images), 0.2);  // [B, 16, 14, 14]
    x = leaky_relu(norm(conv2(x)), 0.2);        // [B, 32, 7, 7]
    return fc(x.flatten(1));
  }
};

int main(int argc, char** argv) try {
  nn::Mnist data(argc > 1 ? argv[1] : "data/mnist");
  const int64_t epochs = argc > 2 ? std::atoll(argv[2]) : 4;

  Generator rng(1337);
  ImageGenerator generator(rng);
  Discriminator discriminator(rng);
  nn::Adam generator_optimizer(generator.parameters(), {.beta1 = 0.5});
  nn::Adam discriminator_optimizer(discriminator.parameters(), {.beta1 = 0.5});
  nn::Loader batches(data.train, {.batch = kBatch, .seed = 1337, .drop_last = true});
  const int64_t steps_per_epoch = batches.batches_per_epoch();
  const auto lr = nn::schedule::one_cycle({.max_lr = kMaxLr, .steps = epochs * steps_per_epoch});
  const Tensor is_real = ones({kBatch, 1}), is_fake = zeros({kBatch, 1});
  const Tensor sheet_noise = randn({100, kNoise}, rng);

  int64_t step = 0;
  for (int64_t epoch = 1; epoch <= epochs; ++epoch) {
    double discriminator_total = 0, generator_total = 0;
    for (const auto& [x, y] : batches) {
      generator_optimizer.set_lr(lr(step));
      discriminator_optimizer.set_lr(lr(step++));
      const Tensor grey = x * 0.3081 + 0.1307;  // from 0 to 1: MNIST's standard deviation and mean
      const Tensor real = (2 * grey - 1).reshape({kBatch, 1, 28, 28});
      const Tensor fake = generator(randn({kBatch, kNoise}, rng));

      // The discriminator learns to tell them apart. The fake images are detached, so that the generator gets no
      // gradient.
      const Tensor discriminator_loss = binary_cross_entropy_with_logits(discriminator(real), is_real) +
                                        binary_cross_entropy_with_logits(discriminator(fake.detach()), is_fake);
      backward(discriminator_loss);
      discriminator_optimizer.step();

      // The generator learns to make images that the discriminator takes for real.
      const Tensor generator_loss = binary_cross_entropy_with_logits(discriminator(fake), is_real);
      backward(generator_loss);
      generator_optimizer.step();
      generator_optimizer.zero_grad();
      discriminator_optimizer.zero_grad();  // its gradients are of both losses by now

      discriminator_total += discriminator_loss.item();
      generator_total += generator_loss.item();
    }
    const auto per_step = static_cast<double>(steps_per_epoch);
    std::cout << "epoch " << epoch << ": discriminator loss " << discriminator_total / per_step << ", generator loss "
              << generator_total / per_step << "\n"
              << std::flush;

    const NoGrad no_grad;
    generator.eval();
    examples::write_png({.title = "Digits of a generative adversarial network",
                         .subtitle = "from random noise, epoch " + std::to_string(epoch),
                         .images = (generator(sheet_noise).reshape({-1, 28, 28}) + 1) / 2},
                        "gan.png");
    generator.train();
  }
} catch (const std::exception& error) {
  std::cerr << "gan: " << error.what() << "\n";
  return 1;
}
