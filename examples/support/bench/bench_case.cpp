#include "support/bench/bench_case.h"

#include <algorithm>

#include <fmt/format.h>
#include <linnet/linnet.h>
#include <nlohmann/json.hpp>

#include "support/bench/floor.h"
#include "support/settings/program.h"

namespace linnet::examples {
namespace {

nn::AttentionConfig config_of(const AttentionCase& c) {
  return {.mechanism = c.mechanism,
          .width = c.heads * c.head_dim,
          .heads = c.heads,
          .causal = c.causal,
          .dropout = c.dropout,
          .max_tokens = c.tokens,
          .options = options_of(c)};
}

nn::AttentionSize attention_size(const AttentionCase& c) {
  return {.batch = c.batch,
          .heads = c.heads,
          .tokens = c.tokens,
          .head_dim = c.head_dim,
          .causal = c.causal,
          .dtype = c.dtype,
          .options = options_of(c)};
}

/// Operations of forward and backward; 0 for a mechanism that does not give them.
double flops_of(const AttentionCase& c, const std::vector<KernelCall>& calls) {
  const nn::Mechanism& mechanism = nn::find_mechanism(c.mechanism);
  if (!mechanism.operations) return 0;
  std::vector<std::string> kernels;
  for (const KernelCall& call : calls) kernels.emplace_back(call.kernel);
  return mechanism.operations(attention_size(c), kernels);
}

/// Times `run`, which maps `inputs` to a result: forward alone, and forward and backward from a fixed cotangent, in
/// turns with `products`, its floor.
Measured measure_differentiable(const std::vector<Tensor>& inputs, const std::function<Tensor()>& run,
                                const std::vector<MatrixProduct>& products, double seconds) {
  Measured measured;
  {
    const NoGrad no_grad;
    measured.forward = measure([&] { wait_for(run()); }, seconds);
  }
  const Tensor cotangent = [&] {
    const Tensor result = run();
    Generator rng(2);
    return randn(result.shape(), rng, DType::float32, result.device()).to(result.dtype());
  }();
  const auto step = [&] {
    for (const Tensor& input : inputs) Tensor(input).set_grad({});
    backward(run(), {.grad = cotangent});
    wait_for(inputs[0].grad());
  };
  const BesideFloor times = measure_beside_floor(step, products, seconds);
  measured.forward_backward = times.work;
  measured.floor = times.floor;
  const Device device = inputs[0].device();
  release_cached_memory(device);
  reset_peak_memory(device);
  step();
  measured.peak_bytes = memory_stats(device).peak;
  return measured;
}

/// The kernels that `work` calls. Counts and floors are computed from them, so they describe what really ran.
std::vector<KernelCall> calls_of(const std::function<void()>& work) {
  const Profile profile;
  work();
  return profile.calls();
}

/// The matrix products among the calls.
std::vector<MatrixProduct> gemms_of(std::vector<KernelCall> calls) {
  std::erase_if(calls, [](const KernelCall& call) { return call.kernel != "gemm"; });
  return products_of(calls);
}

double operations_of(const std::vector<MatrixProduct>& products) {
  double operations = 0;
  for (const MatrixProduct& p : products) operations += 2.0 * static_cast<double>(p.batch * p.m * p.n * p.k);
  return operations;
}

/// A mechanism's core on random queries, keys and values.
struct RandomCore {
  std::vector<Tensor> inputs;  ///< what is differentiated
  std::function<Tensor()> run;
};

/// `rng` must outlive the core. The mechanism must have one.
RandomCore random_core(const AttentionCase& c, Generator& rng) {
  // Laid out as the linear maps of a layer leave them, so gradients have this layout too; `run` transposes the views.
  const auto map = [&] {
    const Tensor x = randn({c.batch, c.tokens, c.heads, c.head_dim}, rng, DType::float32, c.device);
    return x.to(c.dtype).set_requires_grad();
  };
  const Tensor q = map(), k = map(), v = map();
  const nn::AttentionCore core = nn::find_mechanism(c.mechanism).core(config_of(c), rng, c.device);
  std::vector<Tensor> inputs{q, k, v};
  inputs.insert(inputs.end(), core.parameters.begin(), core.parameters.end());
  return {inputs, [=] { return core.attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)); }};
}

/// The operations of the matrix products inside of a core, which Mechanism::operations counts.
double gemm_operations_of_core(const AttentionCase& c) {
  if (!nn::find_mechanism(c.mechanism).core) return 0;
  Generator rng(c.seed);
  const RandomCore core = random_core(c, rng);
  return operations_of(gemms_of(calls_of([&] { backward(sum(core.run())); })));
}

}  // namespace

std::any options_of(const AttentionCase& c) {
  return c.options.has_value() ? c.options : nn::find_mechanism(c.mechanism).options;
}

void wait_for(const Tensor& x) {
  if (x.device() == Device::cpu) return;
  Tensor element = x;  // not by flatten(), which would copy transposed heads
  while (element.rank() > 0) element = element.select(0, 0);
  element.item<float>();
}

Measured measure_attention(const AttentionCase& c, double seconds) {
  if (c.causal) require_causal("--attention", c.mechanism);
  const nn::Mechanism& mechanism = nn::find_mechanism(c.mechanism);
  if (!mechanism.core) {
    throw UsageError(
        fmt::format("--attention {}: its description has no `core`, which is what bench attention times; use bench "
                    "layer",
                    c.mechanism));
  }
  Generator rng(c.seed);
  const RandomCore core = random_core(c, rng);
  Measured measured = measure_differentiable(core.inputs, core.run, {}, seconds);
  measured.flops = flops_of(c, calls_of([&] { core.run(); }));
  if (mechanism.least_bytes) measured.least_bytes = mechanism.least_bytes(attention_size(c));
  return measured;
}

namespace {

/// A model that is one attention layer.
struct Layer : nn::Module {
  Layer(Generator& rng, const AttentionCase& c)
      : Module(rng, c.dtype, c.device), attention(nn::make_attention(*this, "attention", config_of(c))) {}
  Tensor operator()(const Tensor& x) const { return (*attention)(x); }
  std::unique_ptr<nn::Attention> attention;
};

/// A model of Transformer layers, whose feed-forward parts are as wide as the layers (Wu et al. 2021, released code).
struct Layers : nn::Module {
  Layers(Generator& rng, const AttentionCase& c, int64_t count) : Module(rng, c.dtype, c.device) {
    nn::BlockConfig block{.attention = config_of(c)};
    block.hidden = block.attention.width;
    if (const Tensor shared = nn::make_shared_parameter(*this, block.attention); shared.defined()) {
      block.attention.shared = parameter("shared_attention", shared);
    }
    for (int64_t i = 0; i < count; ++i) blocks.add(block);
  }
  Tensor operator()(Tensor x) const {
    for (const nn::Block& block : blocks) x = block(x);
    return x;
  }
  nn::ModuleList<nn::Block> blocks{*this, "blocks"};
};

/// Times a model of `attentions` of the case, on random tokens.
template <class Model>
Measured measure_module(const AttentionCase& c, const Model& model, int64_t attentions, Generator& rng,
                        double seconds) {
  const Tensor noise = randn({c.batch, c.tokens, c.heads * c.head_dim}, rng, DType::float32, c.device);
  const Tensor x = noise.to(model.activation_dtype()).set_requires_grad();
  std::vector<Tensor> inputs = model.parameters();
  inputs.push_back(x);
  const auto run = [&] { return model(x); };

  const std::vector<KernelCall> calls = calls_of([&] { backward(sum(run())); });
  const double of_attention = flops_of(c, calls);
  const double of_core = of_attention > 0 ? gemm_operations_of_core(c) : 0;
  const std::vector<MatrixProduct> products = gemms_of(calls);
  const bool on_cpu = c.device == Device::cpu;  // only CPU products have a floor
  Measured measured = measure_differentiable(inputs, run, on_cpu ? products : std::vector<MatrixProduct>{}, seconds);
  measured.flops = operations_of(products) + static_cast<double>(attentions) * (of_attention - of_core);
  return measured;
}

}  // namespace

Measured measure_layer(const AttentionCase& c, double seconds) {
  if (c.causal) require_causal("--attention", c.mechanism);
  Generator rng(c.seed);
  const Layer layer(rng, c);
  return measure_module(c, layer, 1, rng, seconds);
}

Measured measure_layers(const AttentionCase& c, int64_t count, double seconds) {
  Generator rng(c.seed);
  const Layers layers(rng, c, count);
  return measure_module(c, layers, count, rng, seconds);
}

nlohmann::json to_json(const Measured& m) {
  nlohmann::json json{{"forward_ms", m.forward.median_ms},
                      {"forward_backward_ms", m.forward_backward.median_ms},
                      {"peak_bytes", m.peak_bytes},
                      {"flops", m.flops},
                      {"gflops", m.gflops()}};
  if (m.least_bytes > 0) {
    json.update({{"least_bytes", m.least_bytes}, {"gb_per_second", m.gigabytes_per_second()}});
  }
  if (m.floor) json["floor_ms"] = m.floor->median_ms;
  return json;
}

}  // namespace linnet::examples
