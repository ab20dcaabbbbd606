/// GRU and LSTM as modules: properties that no golden file covers.

#include <cmath>

#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include "tests/support/near.h"

using namespace linnet;
using linnet::test::largest_difference;

TEST_CASE("GRU, LSTM: PyTorch's names, in its order, and initial values") {
  Generator rng(3);
  nn::Sequential net(rng);
  const nn::GRU gru(net, "gru", 5, 100, {.num_layers = 2, .bidirectional = true});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : gru.named_parameters()) {
    names.push_back(name);
    CHECK(tensor.abs().max().item() <= 0.1);
    CHECK(tensor.abs().max().item() > 0.097);
  }
  const std::vector<std::string> expected{
      "weight_ih_l0",         "weight_hh_l0",         "bias_ih_l0",         "bias_hh_l0",
      "weight_ih_l0_reverse", "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse",
      "weight_ih_l1",         "weight_hh_l1",         "bias_ih_l1",         "bias_hh_l1",
      "weight_ih_l1_reverse", "weight_hh_l1_reverse", "bias_ih_l1_reverse", "bias_hh_l1_reverse"};
  CHECK(names == expected);
  CHECK(gru.state().at("weight_ih_l1").shape() == Shape{300, 200});
  const nn::LSTM lstm(net, "lstm", 5, 3, {.bias = false});
  CHECK(lstm.named_parameters().size() == 2);
  CHECK(lstm.state().at("weight_ih_l0").shape() == Shape{12, 5});
  CHECK(gru.label() == std::string("gru (GRU 5→100, 2 layers, both directions)"));
}

TEST_CASE("GRU: a sequence in two parts, the second from the first one's final state, is the whole") {
  Generator rng(4);
  nn::Sequential net(rng);
  const nn::GRU gru(net, "gru", 3, 6, {.num_layers = 2});
  const nn::LSTM lstm(net, "lstm", 3, 6, {.num_layers = 2});
  const Tensor x = randn({7, 2, 3}, rng), first = x.narrow(0, 0, 4), second = x.narrow(0, 4, 3);
  const auto [y, h_n] = gru(x);
  CHECK(y.shape() == Shape{7, 2, 6});
  CHECK(h_n.shape() == Shape{2, 2, 6});
  CHECK(largest_difference(h_n[1], y[6]) == 0);
  const auto [z, h_of_z] = gru(second, {.h0 = gru(first).h_n});
  CHECK(largest_difference(z, y.narrow(0, 4, 3)) < 1e-6);
  CHECK(largest_difference(h_of_z, h_n) < 1e-6);
  const LSTMResult whole = lstm(x), begun = lstm(first), rest = lstm(second, {.h0 = begun.h_n, .c0 = begun.c_n});
  CHECK(largest_difference(rest.c_n, whole.c_n) < 1e-6);
  CHECK(largest_difference(rest.output, whole.output.narrow(0, 4, 3)) < 1e-6);
}

TEST_CASE("GRU: dropout acts between layers, in training alone, and not behind the last") {
  Generator rng(5);
  nn::Sequential net(rng);
  nn::GRU gru(net, "gru", 3, 50, {.num_layers = 2, .dropout = 0.5});
  nn::GRU plain(net, "plain", 3, 50, {.num_layers = 2});
  plain.load_state(gru);
  const Tensor x = randn({4, 2, 3}, rng);
  const GRUResult once = gru(x), again = gru(x), without = plain(x);
  CHECK(largest_difference(once.output, again.output) > 0.01);
  CHECK(largest_difference(once.h_n[0], without.h_n[0]) == 0);
  CHECK((once.output == 0).sum().item() == 0);
  gru.eval();
  CHECK(largest_difference(gru(x).output, without.output) == 0);
}

TEST_CASE("GRU, LSTM: errors at construction and of inputs, with the remedy") {
  Generator rng(6);
  nn::Sequential net(rng);
  CHECK_THROWS_WITH_AS(nn::GRU(net, "a", 0, 4), doctest::Contains("sizes and num_layers must be at least 1"),
                       ValueError);
  CHECK_THROWS_AS(nn::LSTM(net, "b", 3, 4, {.num_layers = 0}), ValueError);
  CHECK_THROWS_WITH_AS(nn::GRU(net, "c", 3, 4, {.num_layers = 2, .dropout = 1}),
                       doctest::Contains("dropout must be in [0, 1), not 1"), ValueError);
  CHECK_THROWS_WITH_AS(nn::GRU(net, "d", 3, 4, {.dropout = 0.1}),
                       doctest::Contains("dropout acts between layers, and there is one; take more num_layers"),
                       ValueError);

  const nn::GRU gru(net, "gru", 3, 4);
  const nn::LSTM batch_first(net, "lstm", 3, 4, {.batch_first = true, .bidirectional = true});
  const Tensor x = ones({7, 2, 3});
  const auto refused = [](const char* part, const auto& f) {
    CAPTURE(part);
    CHECK_THROWS_WITH(f(), doctest::Contains(part));
  };
  refused("gru (GRU 3→4): x[7, 2, 5] must be [T, B, in] with in = 3", [&] { gru(ones({7, 2, 5})); });
  refused("x[7, 3] must be [T, B, in] with in = 3; unsqueeze(1) makes a batch of one", [&] { gru(ones({7, 3})); });
  refused("x[7, 3] must be [B, T, in] with in = 3; unsqueeze(0)", [&] { batch_first(ones({7, 3})); });
  refused("h0[2, 4] must be [1, 2, 4] for x[7, 2, 3], which is read as [T, B, in]",
          [&] { gru(x, {.h0 = ones({2, 4})}); });
  refused("is dim 0 of x its batch? then build the layer with {.batch_first = true}",
          [&] { gru(x, {.h0 = ones({1, 7, 4})}); });
  refused("lengths[7] must be [2] for x[7, 2, 3], which is read as [T, B, in]; is dim 0 of x its batch?",
          [&] { gru(x, {.lengths = ones({7}, DType::int64)}); });
  refused(
      "c0[2, 2, 4] must be [2, 7, 4] for x[7, 2, 3], which is read as [B, T, in]; is dim 1 of x its batch? then "
      "build the layer with {.batch_first = false}",
      [&] { batch_first(x, {.c0 = ones({2, 2, 4})}); });
  refused("lengths[0] is 8, beyond the 7 steps", [&] { gru(x, {.lengths = tensor<int64_t>({8, 1})}); });
  refused("padding_mask[1] has padding before the real step 3; padding comes last: move the real steps to the front",
          [&] {
            Tensor mask = ones({2, 7}, DType::boolean);
            mask[{1, 2}] = false;
            gru(x, {.padding_mask = mask});
          });
  refused("padding_mask[1] has no real step; a sequence has at least 1: leave the empty ones out", [&] {
    Tensor mask = ones({2, 7}, DType::boolean);
    mask[1] = false;
    gru(x, {.padding_mask = mask});
  });
  refused("padding_mask is float32; it must be bool", [&] { gru(x, {.padding_mask = ones({2, 7})}); });
  refused("takes lengths or a padding_mask, and not both",
          [&] { gru(x, {.lengths = tensor<int64_t>({7, 1}), .padding_mask = ones({2, 7}, DType::boolean)}); });
  refused("x[0, 2, 3] has no steps", [&] { gru(ones({0, 2, 3}), {.padding_mask = ones({2, 0}, DType::boolean)}); });
  CHECK(gru(ones({7, 0, 3})).h_n.shape() == Shape{1, 0, 4});
}
