#pragma once

#include <any>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <linnet/core/dtype.h>
#include <linnet/nn/layers/positions.h>
#include <linnet/nn/models/block.h>
#include <nlohmann/json_fwd.hpp>

namespace linnet::examples {

/// Everything that decides how a run goes: what `config.json` holds, and what flags and presets set.
struct Settings {
  std::string task;    ///< "shakespeare" or "mnist"
  std::string preset;  ///< the one it started from
  std::string attention = "softmax";
  /// What only some mechanisms have, by the names in their nn::Mechanism::option_list, and only what the command line
  /// says: `completed` has the rest. But for `share`, which names layers too.
  std::map<std::string, std::string> options = {};
  std::optional<std::vector<std::string>> share = {};  ///< of share_words()
  int64_t short_conv = 0;                              ///< taps of a short convolution in the attention; 0 for none
  std::string positions = "learned";
  double attention_dropout = 0;

  int64_t layers = 4;
  int64_t heads = 4;
  int64_t width = 128;
  int64_t feed_forward = 4;  ///< times the width
  int64_t context = 64;      ///< characters a text model sees
  bool bytes = false;        ///< characters are bytes, not code points
  bool normalise_newlines = false;
  int64_t patch = 4;       ///< pixels on a side of an image's token
  bool transpose = false;  ///< images are stored column by column
  bool bias = false;
  double dropout = 0;

  int64_t batch = 12;
  int64_t accumulate = 1;  ///< micro-batches a step
  int64_t steps = 2000;
  int64_t epochs = 0;  ///< instead of steps, when not 0
  std::string schedule = "cosine";
  double lr = 1e-3;
  double min_lr = 1e-4;
  int64_t warmup = 100;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0.1;
  bool decay_matrices_only = true;
  double clip = 1;  ///< of the gradients' norm; 0 for none

  int64_t eval_every = 250;
  int64_t eval_batches = 40;
  int64_t checkpoint_every = 500;  ///< 0 for none between the first and the last

  uint64_t seed = 1337;
  int threads = 0;  ///< 0: all that this process may use
  std::string device = "cpu";
  std::string precision = "float32";  ///< float32, tf32 or bfloat16: of matrix products, and see model_dtype
  std::filesystem::path data = {};    ///< --data, or what it was when the run that was read began
  std::filesystem::path out = {};
  bool tensorboard = false;
  bool resume = false;
  bool profile = false;
  std::vector<std::string> command = {};  ///< the words that were typed to begin with it
};

/// Where the run computes.
Device device_of(const Settings& settings);
/// What models are built with to be trained or timed: bfloat16, so with activations of bfloat16 and weights of
/// float32, where --precision says so; else float32. Programs that look at trained models build them of float32.
DType model_dtype(const Settings& settings);

/// The tasks that a model can be trained for: the choices of --task.
std::vector<std::string> task_names();
/// The names of a task's presets, its default first; of all tasks without one.
std::vector<std::string> preset_names(const std::string& task = "");
/// The presets that a number can be compared with. Throws std::runtime_error naming those that exist.
Settings preset(const std::string& task, const std::string& name);

/// The words that an option of a mechanism takes.
std::vector<std::string> option_words(const std::string& attention, const std::string& option);

/// The mechanism's place in the list of all, by which every picture gives it the same colour.
size_t mechanism_index(const std::string& attention);

/// Refuses settings that cannot work together, naming the flag, the value and what to change. Cheap: call it
/// before anything else.
void validate(const Settings& settings);

/// The preset and every setting that differs from it, but for steps, seed and settings that change no result:
/// `preset nanogpt-cpu, layers 2`.
std::string describe_model(const Settings& settings);
/// How long the run is to be: `40 steps`, `1 epoch`.
std::string length_of(const Settings& settings);
/// The model and its run's length, as tables and pictures name their runs: `preset nanogpt-cpu, layers 2, 40 steps`.
std::string describe(const Settings& settings);

/// The struct of the mechanism's own options, with what was said of them. Throws UsageError for an option that it
/// does not have, and for a value that one does not take.
std::any attention_options(const Settings& settings);
/// How a model's blocks are built, with the mechanism's own options. Throws as `attention_options` does.
nn::BlockConfig block_config(const Settings& settings);
/// Throws UsageError for positions that there are not.
nn::Positions positions_of(const Settings& settings);
/// The settings with what the mechanism has and nothing was said about.
Settings completed(Settings settings);

/// "--fastmax-scale" for fastmax_scale.
std::string flag_of(std::string option);

/// What settings.share can name: the layers, what mechanisms have for it, or none.
std::vector<std::string> share_words();
/// Whether the weights that it calls `what` are shared.
bool shares(const Settings& settings, const std::string& what);

/// Of the settings completed, so that a default made explicit is no other run.
nlohmann::json to_json(const Settings& settings);
/// What an older run's file lacks has its default. Throws UsageError for a setting that is not known here.
Settings settings_from_json(const nlohmann::json& json);

}  // namespace linnet::examples
