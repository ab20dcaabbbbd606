/// Writes random token ids and a trained text model's logits for them: linnet_logits RUN_FOLDER FILE

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "support/run/run_folder.h"
#include "support/settings/program.h"
#include "support/tasks/text_model.h"

using namespace linnet;
using namespace linnet::examples;

int main(int argc, char** argv) {
  CLI::App app("Writes random token ids and the logits of a trained text model for them.", "linnet_logits");
  return run_program(app, [&] {
    std::filesystem::path folder, file;
    app.add_option("model", folder, "the --out folder of train_shakespeare")->required();
    app.add_option("file", file, "a safetensors file for tokens and logits")->required();
    app.parse(argc, argv);

    const std::filesystem::path weights = folder / "model.safetensors";
    const int64_t vocabulary = read_safetensors(weights).tensors.at("tok.weight").size(0);
    Generator rng(1337);
    nn::DecoderLM model(rng, text_model_config(read_config(folder), vocabulary));
    model.load(weights);
    model.eval();
    const Tensor tokens = randint(0, vocabulary, {4, model.config().context}, rng);
    const NoGrad no_grad;
    write_safetensors(file, {.tensors = {{"tokens", tokens}, {"logits", model(tokens)}}});
  });
}
