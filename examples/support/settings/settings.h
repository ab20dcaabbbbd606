#pragma once

#include <any>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <linnet/core/dtype.h>
#include <linnet/nn/attention/mechanism.h>
#include <linnet/nn/layers/positions.h>
#include <linnet/nn/models/block.h>
#include <linnet/nn/models/sequence_classifier.h>
#include <nlohmann/json_fwd.hpp>

namespace linnet::examples {

/// The kinds of tasks: language models of a text; classifiers of images by patches; classifiers of sequences of ids,
/// the tasks of the Long Range Arena (Tay et al. 2021); and the tasks of Wu et al. 2021, which are word-level
/// classifiers of texts, models of users' behaviour (recommendation and conversion), and writers of summaries.
enum class TaskKind : uint8_t { text, images, sequences, labelled_texts, users, summaries };

/// The settings that only tasks of the Long Range Arena have. Of these, classifiers of texts have `pool`, `stand_in`
/// and `data_seed`.
struct LraSettings {
  std::string pool = "padded";    ///< how tokens become one vector, one of the words of kPools
  bool stand_in = false;          ///< whether other data may stand in for a public set that is absent
  bool black_is_padding = false;  ///< images: ids are greys, and black pixels are padding, as in public PyTorch code
  int64_t downsample = 1;         ///< images: side of the squares of pixels whose mean is one token
  int64_t min_tokens = 501;       ///< listops: of the shortest expression; `Settings::context` is the longest
  int64_t contour_length = 14;    ///< pathfinder: paddles in a snake
  int64_t distractors = 5;        ///< pathfinder: shorter snakes, which only distract
  uint64_t data_seed = 1;         ///< of generated data, and of the parts that texts are divided into
};

/// Which sequences a classifier of texts encodes.
enum class TextLevels : uint8_t {
  word,     ///< the words of a text
  sentence  ///< the words of each sentence, and then the sentences of the text
};

/// The most sentences of a text, and words of a sentence, that TextLevels::sentence reads.
inline constexpr int64_t kMostSentences = 64, kMostSentenceWords = 64;

/// The settings that only classifiers of texts have. Of these, recommendation has `glove`.
struct LabelledTextSettings {
  std::string format = "auto";  ///< of the data's files: one of text_format_names(); auto goes by the file's ending
  std::string text_field = {};  ///< the fields or columns of the text, comma-separated; empty: the format's
  std::string label_field = {};
  std::string levels = "word";  ///< one of the words of kLevels
  int64_t vocabulary = 50'000;  ///< the most words that have ids
  int64_t min_count = 2;        ///< a word that is rarer in the training part has no id
  std::string glove = {};       ///< a file of word vectors; empty for none
  bool strict = false;          ///< whether a malformed line ends the program; otherwise it is skipped
};

/// How a model of users turns a sequence into one vector.
enum class UserEncoder : uint8_t {
  layers,  ///< Transformer layers with any mechanism, and additive pooling
  nrms,    ///< softmax attention alone, and additive pooling: NRMS (Wu et al. 2019)
  mean     ///< the mean, to compare with
};

/// The settings that only tasks of users have.
struct UserSettings {
  std::string encoder = "layers";  ///< how a sequence becomes one vector, one of the words of kUserEncoders
  int64_t title_words = 30;        ///< the most words of a title or another text; later words are cut
  int64_t history = 50;            ///< the most news or behaviours of a user; earlier ones are cut
  bool strict = false;             ///< whether a malformed line is an error; otherwise it is skipped and counted
  int64_t users = 4000;            ///< generated data: users to train on
  int64_t test_users = 500;        ///< generated data: further users, to test on
  int64_t items = 1000;            ///< generated data of recommendation
  double sharpness = 1;            ///< conversion: a factor of the generator's logits
};

/// The settings that only writers of summaries have. Of the general settings, `layers` and `attention` are the
/// encoder's, and `context` is the length of the longest article.
struct SummarySettings {
  int64_t vocabulary = 32'000;  ///< the most tokens of the byte-pair vocabulary
  int64_t target_tokens = 256;  ///< of the longest summary, with the token of its end
  int64_t decoder_layers = 4;
  std::string decoder_attention = "softmax";
  std::string cross = "softmax";  ///< the mechanism of the decoder's attention to the article
  double label_smoothing = 0;
  int64_t beam = 5;
  double alpha = 0.6;      ///< exponent of the length penalty
  int64_t min_length = 0;  ///< of a generated summary
  int64_t max_length = 0;  ///< of a generated summary; 0 for target_tokens
  int64_t no_repeat = 3;   ///< no sequence of this many tokens occurs twice; 0 for no limit
  bool strict = false;     ///< whether a malformed article is an error; otherwise it is skipped
};

/// All settings of a run. Presets and flags set them; `config.json` holds them.
struct Settings {
  std::string task;    ///< one of task_names()
  std::string preset;  ///< the preset that the settings started from
  std::string attention = "softmax";
  /// Options of the mechanism that the command line sets, by their names in nn::Mechanism::option_list; `completed`
  /// adds the others. The option `share` has a field of its own, since it can name layers too.
  std::map<std::string, std::string> options = {};
  /// Options of single mechanisms, by the mechanisms' names. A preset uses them if several mechanisms have an option
  /// and only one should get the value; a run that is read uses them for its further_mechanisms. They override
  /// `options`, and a flag replaces both.
  std::map<std::string, std::map<std::string, std::string>> own_options = {};
  std::optional<std::vector<std::string>> share = {};  ///< some of share_words()
  int64_t short_conv = 0;                              ///< taps of a short convolution in the attention; 0 for none
  std::string positions = "learned";
  double attention_dropout = 0;

  int64_t layers = 4;
  int64_t heads = 4;
  int64_t width = 128;
  int64_t feed_forward = 4;  ///< hidden width of the MLP, as a multiple of `width`
  int64_t context = 64;      ///< the most characters that a text model sees, tokens of a sequence, or words of a text
  bool bytes = false;        ///< characters are bytes, not code points
  bool normalise_newlines = false;
  LraSettings lra = {};
  LabelledTextSettings texts = {};
  UserSettings of_users = {};
  SummarySettings summary = {};
  int64_t patch = 4;       ///< pixels on a side of an image's token
  bool transpose = false;  ///< images are stored column by column
  bool bias = false;
  double dropout = 0;

  int64_t batch = 12;
  int64_t accumulate = 1;  ///< micro-batches per step
  int64_t shards = 1;      ///< parts of a batch; their gradients are computed separately and summed in a tree
  std::string reduce = "in-order";  ///< the order of sums over processes: in-order or any-order
  bool shard_optimizer = false;     ///< whether each process stores a part of the optimizer's state; changes no bit
  int64_t steps = 2000;
  int64_t epochs = 0;  ///< unless 0, used instead of `steps`
  std::string schedule = "cosine";
  double lr = 1e-3;
  double min_lr = 1e-4;
  int64_t warmup = 100;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double eps = 1e-8;
  double weight_decay = 0.1;
  bool decay_matrices_only = true;
  double clip = 1;              ///< largest norm of the gradients; 0 for no limit
  double clip_value = 0;        ///< largest absolute value of a gradient's numbers; 0 for no limit
  bool cycle_momentum = false;  ///< beta1 falls from 0.95 to 0.85 and rises again, opposite to the rate
  bool keep_best = false;       ///< the final weights are those with the best validation accuracy

  int64_t eval_every = 250;
  int64_t eval_batches = 40;
  int64_t checkpoint_every = 500;  ///< 0: only before the first step and after the last

  uint64_t seed = 1337;
  int threads = 0;  ///< 0: as many as this process may use
  std::string device = "cpu";
  std::string precision = "float32";  ///< of matrix products: float32, tf32 or bfloat16 (see model_dtype)
  std::filesystem::path data = {};    ///< --data; for a run that was read, its --data at the start
  bool began_with_stand_in = false;   ///< a run that was read learns from a stand-in, even if the set is there now
  std::filesystem::path out = {};
  bool tensorboard = false;
  bool resume = false;
  bool profile = false;
  std::vector<std::string> command = {};  ///< the command line that started the run
};

/// The mechanism with this name. Throws UsageError for an unknown one.
const nn::Mechanism& mechanism_of(const std::string& attention);

/// The mechanisms of the run's model beside settings.attention, each with its part, "decoder" or "cross": those of
/// writers of summaries.
std::vector<std::pair<std::string, std::string>> further_mechanisms(const Settings& settings);
/// Whether the run's model has a mechanism with this option.
bool has_option(const Settings& settings, const std::string& option);

/// The device that the run computes on.
Device device_of(const Settings& settings);
/// The dtype of models that are trained or timed: bfloat16 with --precision bfloat16, which means activations of
/// bfloat16 and weights of float32; otherwise float32. Programs that read trained models build them in float32.
DType model_dtype(const Settings& settings);

/// The choices of --task: all tasks, or those of one kind.
std::vector<std::string> task_names();
std::vector<std::string> task_names(TaskKind kind);
/// The kind of a task. Throws UsageError for an unknown name.
TaskKind kind_of(const std::string& task);
/// Whether the task is of this kind; false for a task that does not exist, which `validate` refuses.
bool is_of(TaskKind kind, const Settings& settings);
/// The names of the programs that train a task: "train_mnist", "train_text or train_shakespeare".
std::string programs_of(const std::string& task);
/// The names of a task's presets, the default first; the presets of all tasks if none is named.
std::vector<std::string> preset_names(const std::string& task = "");
/// The settings of a published preset. Throws UsageError, with the names of the presets, for an unknown name.
Settings preset(const std::string& task, const std::string& name);

/// The words of a mechanism's option, which must exist.
std::vector<std::string> option_words(const std::string& attention, const std::string& option);

/// The mechanism's index in the list of all, which gives it the same colour in every picture.
size_t mechanism_index(const std::string& attention);

/// Throws UsageError for settings that cannot work together; the message names the flag, its value and what to
/// change. It is cheap: call it first.
void validate(const Settings& settings);

/// The warm-up of a run of `steps` with the settings of a preset, unless a flag sets it: the preset's, but at most a
/// tenth of the steps if these are fewer than the preset's.
int64_t shortened_warmup(const Settings& published, int64_t steps);

/// The preset and the settings that differ from it, such as `preset nanogpt-cpu, layers 2`, without steps, seed and
/// settings that change no result.
std::string describe_model(const Settings& settings);
/// The name of a run in a table of several: its mechanism, or its encoder if that allows no choice of mechanism.
std::string row_name(const Settings& settings);
/// The planned length of the run: `40 steps`, `1 epoch`.
std::string length_of(const Settings& settings);
/// The name of a run in tables and pictures, its model and length: `preset nanogpt-cpu, layers 2, 40 steps`.
std::string describe(const Settings& settings);

/// The values of all options of the mechanism as words, also of `share`, with its defaults for those that are not
/// set.
std::map<std::string, std::string> all_options(const Settings& settings);
/// The mechanism's options, such as an nn::FastmaxConfig, with the values that the settings give. Throws UsageError
/// for an option that no mechanism of the model has, and for a value that an option does not take.
std::any attention_options(const Settings& settings);
/// How a model's blocks are built, with the mechanism's own options. Throws as `attention_options` does.
nn::BlockConfig block_config(const Settings& settings);
/// Throws UsageError for a combination of options that the mechanism, which `flag` names, refuses. `max_tokens` is
/// the length of the model's longest sequence, 0 while it is not known.
void check_options(const Settings& settings, int64_t max_tokens = 0, std::string_view flag = "--attention");
/// The value of settings.lra.pool. Throws UsageError for an unknown word.
nn::Pooling pool_of(const Settings& settings);
/// The value of settings.texts.levels. Throws UsageError for an unknown word.
TextLevels levels_of(const Settings& settings);
/// The value of settings.of_users.encoder. Throws UsageError for an unknown word.
UserEncoder user_encoder_of(const Settings& settings);
/// The value of settings.positions. Throws UsageError for an unknown word.
nn::Positions positions_of(const Settings& settings);
/// The settings for one of several mechanisms. They keep only the options that it or a further mechanism has.
Settings settings_of(const std::string& mechanism, Settings settings);
/// Throws UsageError for an option that none of the mechanisms has; `flag` has named these.
void check_options_apply(const Settings& settings, std::string_view flag, const std::vector<std::string>& mechanisms);
/// The settings with defaults for those options of the mechanism that were not set, and with all options of further
/// mechanisms in `own_options`.
Settings completed(Settings settings);

/// "--fastmax-scale" for fastmax_scale.
std::string flag_of(std::string option);

/// The words that settings.share can hold: `layers`, those of the mechanisms, and `none`.
std::vector<std::string> share_words();
/// Whether settings.share, or its default, holds `what`.
bool shares(const Settings& settings, const std::string& what);

/// The completed settings, so that a run with an explicit default equals a run without it.
nlohmann::json to_json(const Settings& settings);
/// Settings that an older run's file lacks get their defaults. Throws UsageError for an unknown setting.
Settings settings_from_json(const nlohmann::json& json);

}  // namespace linnet::examples
