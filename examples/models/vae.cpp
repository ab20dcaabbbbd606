/// A variational autoencoder on MNIST: it learns to encode a digit as 20 numbers, and to draw a digit from any code.
///
///     build/bin/vae data/mnist       # 15 epochs, and the bound of the test digits after each
///     build/bin/vae data/mnist 1     # 1 epoch
///
/// Draws vae.png: digits from random codes.
///
/// Shapes: B images of 784 pixels, each 0 or 1, and their codes z of kCode numbers.
///
/// Source: Kingma & Welling 2014, "Auto-encoding variational Bayes".

#include <cstdlib>
#include <iostream>

#include <linnet/linnet.h>

#include "support/plot/image_sheet.h"
using namespace linnet;

constexpr int64_t kCode = 20;
constexpr int64_t kWidth = 512;  // of the hidden layers
constexpr double kMaxLr = 2e-3;

struct Vae : nn::Module {
  explicit Vae(Generator& rng) : Module(rng) {}
  nn::Linear encoder1{*this, "encoder1", 784, kWidth};
  nn::Linear encoder2{*this, "encoder2", kWidth, kWidth};
  nn::Linear mean{*this, "mean", kWidth, kCode};
  nn::Linear log_var{*this, "log_var", kWidth, kCode};
  nn::Linear decoder1{*this, "decoder1", kCode, kWidth};
  nn::Linear decoder2{*this, "decoder2", kWidth, kWidth};
  nn::Linear pixels{*this, "pixels", kWidth, 784};

  struct Normal {
    Tensor mean, log_var;
  };
  /// q(z|x), the distribution of the codes of each image: [B, 784] → [B, kCode] each
  Normal encode(const Tensor& x) const {
    const Tensor hidden = relu(encoder2(relu(encoder1(x))));
    return {mean(hidden), log_var(hidden)};
  }

  /// The logits of p(x|z), the probability that a pixel is 1: [B, kCode] → [B, 784]
  Tensor decode(const Tensor& z) const { return pixels(relu(decoder2(relu(decoder1(z))))); }

  /// The evidence lower bound of log p(x), in nats per image: [B, 784] → [B]
  Tensor elbo(const Tensor& x, Generator& rng) const {
    const Normal q = encode(x);
    const Tensor z = q.mean + exp(0.5 * q.log_var) * randn_like(q.mean, rng);  // section 2.4
    const Tensor log_p = -binary_cross_entropy_with_logits(decode(z), x, {.reduction = Reduction::none}).sum(1);
    const Tensor kl = 0.5 * (q.mean.square() + exp(q.log_var) - 1 - q.log_var).sum(1);  // appendix B
    return log_p - kl;                                                                  // eq. 3
  }
};

/// Makes each pixel 1 with its grey value as the probability, and 0 otherwise, as in Salakhutdinov & Murray 2008.
Tensor binarise(const Tensor& normalised, Generator& rng) {
  const Tensor grey = normalised * 0.3081 + 0.1307;  // MNIST's standard deviation and mean
  return (rand_like(grey, rng) < grey).to(DType::float32);
}

int main(int argc, char** argv) try {
  nn::Mnist data(argc > 1 ? argv[1] : "data/mnist");
  const int64_t epochs = argc > 2 ? std::atoll(argv[2]) : 15;

  Generator rng(1337);
  Vae model(rng);
  nn::Adam optimizer(model.parameters());
  nn::Loader batches(data.train, {.batch = 128, .seed = 1337});
  const auto lr = nn::schedule::one_cycle({.max_lr = kMaxLr, .steps = epochs * batches.batches_per_epoch()});

  int64_t step = 0;
  for (int64_t epoch = 1; epoch <= epochs; ++epoch) {
    for (const auto& [x, y] : batches) {
      optimizer.set_lr(lr(step++));
      backward(-model.elbo(binarise(x, rng), rng).mean());
      optimizer.step();
      optimizer.zero_grad();
    }
    const NoGrad no_grad;
    Generator test_rng(1);  // the same pixels after each epoch
    for (const auto& [x, y] : nn::Loader(data.test, {.batch = data.test.size()})) {
      std::cout << "epoch " << epoch << ": test ELBO " << model.elbo(binarise(x, test_rng), test_rng).mean().item()
                << " nats\n"
                << std::flush;
    }
  }

  const NoGrad no_grad;
  const Tensor samples = sigmoid(model.decode(randn({100, kCode}, rng)));
  examples::write_png({.title = "Digits of a variational autoencoder",
                       .subtitle = "from random codes; white: the probability of a white pixel",
                       .images = samples.reshape({-1, 28, 28})},
                      "vae.png");
} catch (const std::exception& error) {
  std::cerr << "vae: " << error.what() << "\n";
  return 1;
}
