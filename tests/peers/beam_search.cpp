/// Times beam search of an encoder–decoder with random weights: linnet_beam_search FILE THREADS. It writes the
/// weights, the sources and the results to the file, for beam_search.py.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>

#include <linnet/linnet.h>

using namespace linnet;

namespace {

void run(const std::string& file, int threads) {
  set_num_threads(threads);
  constexpr int64_t kSources = 16, kTokens = 256, kVocabulary = 8000;
  Generator rng(1337);
  nn::EncoderDecoder model(rng, {.vocabulary = kVocabulary,
                                 .source_tokens = kTokens,
                                 .target_tokens = 64,
                                 .encoder_layers = 4,
                                 .decoder_layers = 4,
                                 .block = {.attention = {.width = 256, .heads = 16}}});
  for (auto& [name, parameter] : model.named_parameters()) {
    if (parameter.rank() > 1) nn::init::normal_(parameter, rng, 0, 0.1);  // so that sources have different targets
  }
  const Tensor sources = randint(3, kVocabulary, {kSources, kTokens}, rng);
  const nn::BeamSearchOptions options{
      .num_beams = 4, .max_length = 64, .bos_token_id = 1, .eos_token_id = 2, .suppress_tokens = {0}};
  std::vector<nn::BeamHypothesis> found;
  std::vector<double> times;
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    found = nn::beam_search(model, sources, {}, options);
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  std::ranges::sort(times);

  TensorMap tensors = model.state();
  tensors["sources"] = sources;
  std::vector<double> scores;
  int64_t tokens = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    tensors["found." + std::to_string(i)] = tensor(found[i].ids);
    scores.push_back(found[i].score);
    tokens += std::ssize(found[i].ids);
  }
  tensors["scores"] = tensor(scores);
  write_safetensors(file, {.tensors = tensors});
  std::cout << "{\"ms\": " << times[1] << ", \"tokens\": " << tokens << "}\n";
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) throw ValueError("usage: linnet_beam_search FILE THREADS");
  run(argv[1], std::stoi(argv[2]));
} catch (const std::exception& error) {
  std::cerr << "linnet_beam_search: " << error.what() << "\n";
  return 1;
}
