#include "support/text_model.h"

#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linnet/nn/data/utf8.h>

#include "support/program.h"
#include "support/run_folder.h"
#include "support/task.h"

namespace linnet::examples {
namespace {

/// The settings of the run in `folder`, which must be one of train_shakespeare.
Settings text_settings(const std::filesystem::path& folder) {
  Settings settings = read_config(folder);
  if (settings.task != "shakespeare") {
    throw ValueError(fmt::format("{} holds a model for {}, which writes no text", folder.string(), settings.task));
  }
  check_is_trained(folder);
  return settings;
}

constexpr const char* kBytes = "bytes";

nn::Vocabulary read_vocabulary(const std::filesystem::path& weights) {
  const auto metadata = read_safetensors(weights).metadata;
  const auto codes = metadata.find("vocabulary");
  if (codes == metadata.end()) throw IoError(fmt::format("{} holds no vocabulary", weights.string()));
  const auto characters = metadata.find("characters");
  const bool bytes = characters == metadata.end() || characters->second == kBytes;  // older files do not say
  std::istringstream stream(codes->second);
  std::string text;
  for (uint32_t code = 0; stream >> code;) {
    if (bytes) {
      text += static_cast<char>(code);
    } else {
      detail::append_code_point(text, code);
    }
  }
  return nn::Vocabulary(text, bytes ? nn::Characters::bytes : nn::Characters::code_points);
}

/// The next character from logits [1, V].
int64_t draw(Tensor logits, const SampleOptions& options, Generator& rng) {
  if (options.temperature == 0) return argmax(logits, -1).item<int64_t>();
  logits = logits / options.temperature;
  if (options.top_k <= 0 || options.top_k >= logits.size(-1)) {
    return multinomial(softmax(logits), 1, rng).item<int64_t>();
  }
  const ValuesAndIndices best = topk(logits, options.top_k);
  const Tensor choice = multinomial(softmax(best.values), 1, rng);
  return gather(best.indices, -1, choice).item<int64_t>();
}

}  // namespace

nn::DecoderConfig text_model_config(const Settings& s, int64_t vocabulary) {
  return {.vocabulary = vocabulary,
          .context = s.context,
          .layers = s.layers,
          .share_layers = shares(s, "layers"),
          .block = block_config(s),
          .positions = positions_of(s)};
}

TrainedTextModel::TrainedTextModel(const std::filesystem::path& folder, const Settings& machine)
    : settings(text_settings(folder)),
      vocabulary(read_vocabulary(folder / "model.safetensors")),
      rng(machine.seed),
      model(rng, text_model_config(settings, vocabulary.size()), DType::float32, device_of(machine)) {
  model.load(folder / "model.safetensors");
  model.eval();
}

void generate(nn::DecoderLM& model, const nn::Vocabulary& vocabulary, const SampleOptions& options, Generator& rng,
              const std::function<void(const std::string&)>& write) {
  const NoGrad no_grad;
  const bool was_training = model.training();
  model.eval();
  std::vector<int64_t> ids = vocabulary.encode(options.prompt);
  if (ids.empty()) throw ValueError("the prompt is empty; give at least one character");
  write(options.prompt);
  const bool bounded = model.config().positions == nn::Positions::learned;
  const int64_t context = model.config().context;

  nn::DecoderState state = model.start();
  Tensor logits;
  const auto feed = [&](int64_t id) { logits = model.step(state, tensor<int64_t>({id}).to(model.device())); };
  // Learned positions end with the context: then the second half of it is read again from their beginning.
  const auto restart = [&] {
    state = model.start();
    const size_t kept = ids.size() - static_cast<size_t>(std::max<int64_t>(context / 2, 1));
    for (size_t i = kept; i < ids.size(); ++i) feed(ids[i]);
  };
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!bounded || std::ssize(ids) - static_cast<int64_t>(i) <= context) feed(ids[i]);
  }
  for (int64_t i = 0; i < options.tokens; ++i) {
    ids.push_back(draw(logits, options, rng));
    write(vocabulary.decode({&ids.back(), 1}));
    if (bounded && state.tokens == context) {
      restart();
    } else {
      feed(ids.back());
    }
  }
  if (was_training) model.train();
}

std::map<std::string, std::string> vocabulary_metadata(const nn::Vocabulary& vocabulary) {
  const std::vector<uint32_t> codes(vocabulary.codes().begin(), vocabulary.codes().end());
  return {{"vocabulary", fmt::format("{}", fmt::join(codes, " "))},
          {"characters", vocabulary.kind() == nn::Characters::bytes ? kBytes : "code points"}};
}

}  // namespace linnet::examples
