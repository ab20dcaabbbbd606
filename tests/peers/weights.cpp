/// Loads the weights of PyTorch's layers into linnet's, and saves linnet's for PyTorch: linnet_weights FOLDER
///
/// For each layer or model that main names, weights.py has written NAME.input.safetensors (`x`) and PyTorch's
/// state_dict, NAME.pytorch.safetensors. This program writes NAME.loaded.safetensors (`y`, the output with these
/// weights), NAME.linnet.safetensors, the weights of a model that it trained, and NAME.saved.safetensors (`y` with
/// them).

#include <concepts>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>

#include <linnet/linnet.h>

using namespace linnet;

namespace {

/// A model of one layer, called `layer`.
template <class Layer>
struct Model : nn::Module {
  template <class... Args>
  explicit Model(Generator& rng, const Args&... args) : Module(rng, DType::float64), layer(*this, "layer", args...) {}
  Layer layer;
  Tensor operator()(const Tensor& x) const {
    if constexpr (std::derived_from<Layer, nn::Recurrent>) {
      return layer(x).output;
    } else {
      return layer(x);
    }
  }
};

struct Containers : nn::Module {
  explicit Containers(Generator& rng) : Module(rng, DType::float64) {
    net.add<nn::Linear>(6, 8).add(gelu).add<nn::LayerNorm>(8);
    for (int i = 0; i < 2; ++i) list.add(8, 8);
    heads.add("digits", 8, 10);
    heads.add("letters", 8, 26);
  }
  nn::Sequential net{*this, "net"};
  nn::ModuleList<nn::Linear> list{*this, "list"};
  nn::ModuleDict<nn::Linear> heads{*this, "heads"};
  Tensor operator()(const Tensor& input) const {
    Tensor x = net(input);
    for (const nn::Linear& linear : list) x = relu(linear(x));
    return concat({heads["digits"](x), heads["letters"](x)}, -1);
  }
};

struct LeNet : nn::Module {
  explicit LeNet(Generator& rng) : Module(rng, DType::float64) {}
  nn::Conv2d conv1{*this, "conv1", 1, 6, 5, {.padding = 2}};
  nn::Conv2d conv2{*this, "conv2", 6, 16, 5};
  nn::Linear fc1{*this, "fc1", 16 * 5 * 5, 120};
  nn::Linear fc2{*this, "fc2", 120, 84};
  nn::Linear fc3{*this, "fc3", 84, 10};
  Tensor operator()(const Tensor& pixels) const {
    Tensor x = max_pool2d(relu(conv1(pixels)), 2);
    x = max_pool2d(relu(conv2(x)), 2);
    return fc3(relu(fc2(relu(fc1(x.flatten(1))))));
  }
};

/// Builds a model as Model(rng, args...), once to load PyTorch's weights and once to train and save its own.
template <class Model, class... Args>
void exchange(const std::filesystem::path& folder, const std::string& name, const Args&... args) {
  const auto file = [&](const char* what) { return folder / (name + "." + what + ".safetensors"); };
  const Tensor x = read_safetensors(file("input")).tensors.at("x");
  Generator rng(1);

  Model loaded(rng, args...);
  loaded.load(file("pytorch"));  // strict: all names and shapes are the same on both sides
  loaded.eval();
  write_safetensors(file("loaded"), {.tensors = {{"y", loaded(x).detach()}}});

  Model saved(rng, args...);
  nn::SGD optimizer(saved.parameters(), {.lr = 0.1});
  for (int step = 0; step < 3; ++step) {
    backward(saved(x).square().mean());
    optimizer.step();
    optimizer.zero_grad();
  }
  saved.eval();
  saved.save(file("linnet"));
  write_safetensors(file("saved"), {.tensors = {{"y", saved(x).detach()}}});
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw std::invalid_argument("usage: linnet_weights FOLDER");
  const std::filesystem::path folder = argv[1];
  exchange<Model<nn::Linear>>(folder, "Linear", 6, 5);
  exchange<Model<nn::Linear>>(folder, "Linear without bias", 6, 5, false);
  exchange<Model<nn::Conv1d>>(folder, "Conv1d", 4, 6, 3,
                              nn::Conv1dConfig{.stride = 2, .padding = 2, .dilation = 2, .groups = 2});
  exchange<Model<nn::Conv2d>>(folder, "Conv2d", 4, 6, Size2d(3, 2),
                              nn::Conv2dConfig{.stride = {2, 1}, .padding = {2, 1}, .dilation = {1, 2}, .groups = 2});
  exchange<Model<nn::ConvTranspose2d>>(
      folder, "ConvTranspose2d", 4, 6, Size2d(3, 2),
      nn::ConvTranspose2dConfig{.stride = 2, .padding = 1, .output_padding = {1, 0}, .groups = 2, .dilation = 2});
  exchange<Model<nn::BatchNorm1d>>(folder, "BatchNorm1d", 5);
  exchange<Model<nn::BatchNorm2d>>(folder, "BatchNorm2d", 5, nn::BatchNormConfig{.eps = 1e-3, .momentum = {}});
  exchange<Model<nn::BatchNorm2d>>(folder, "BatchNorm2d without statistics", 5,
                                   nn::BatchNormConfig{.track_running_stats = false});
  exchange<Model<nn::GroupNorm>>(folder, "GroupNorm", 2, 6);
  exchange<Model<nn::LayerNorm>>(folder, "LayerNorm", 6);
  exchange<Model<nn::RMSNorm>>(folder, "RMSNorm", 6, 1e-6);
  exchange<Model<nn::Embedding>>(folder, "Embedding", 7, 4);
  const nn::RecurrentConfig recurrent{.num_layers = 2, .batch_first = true, .bidirectional = true};
  exchange<Model<nn::GRU>>(folder, "GRU", 3, 4, recurrent);
  exchange<Model<nn::LSTM>>(folder, "LSTM", 3, 4, recurrent);
  exchange<Model<nn::GRU>>(folder, "GRU without bias", 3, 4, nn::RecurrentConfig{.bias = false});
  exchange<Containers>(folder, "Containers");
  exchange<LeNet>(folder, "LeNet");
} catch (const std::exception& error) {
  std::cerr << "linnet_weights: " << error.what() << "\n";
  return 1;
}
