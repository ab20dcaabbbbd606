#include "support/tasks/text_model.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linnet/core/files/utf8.h>

#include "support/files.h"

namespace linnet::examples {
namespace {

constexpr const char* kBytes = "bytes";

}  // namespace

nn::DecoderConfig text_model_config(const Settings& s, int64_t vocabulary) {
  return {.vocabulary = vocabulary,
          .context = s.context,
          .layers = s.layers,
          .share_layers = shares(s, "layers"),
          .block = block_config(s),
          .positions = positions_of(s)};
}

std::string default_prompt(const nn::Vocabulary& vocabulary) {
  const bool has_lines = std::ranges::count(vocabulary.codes(), U'\n') > 0;
  return has_lines ? "\n" : vocabulary.decode(std::array<int64_t, 1>{0});
}

void generate(nn::DecoderLM& model, const nn::Tokenizer& vocabulary, const SampleOptions& options, Generator& rng,
              const std::function<void(const std::string&)>& write) {
  const std::vector<int64_t> prompt = vocabulary.encode(options.prompt);
  if (prompt.empty()) throw ValueError("the prompt is empty; give at least one character");
  write(options.prompt);
  nn::generate(model, prompt, rng,
               {.max_new_tokens = options.tokens,
                .temperature = options.temperature,
                .top_k = options.top_k,
                .top_p = options.top_p,
                .eos_token_id = options.eos_token_id},
               [&](int64_t id) {
                 if (id != options.eos_token_id) write(vocabulary.decode({&id, 1}));
               });
}

nn::Vocabulary vocabulary_of(const std::map<std::string, std::string>& metadata, const std::filesystem::path& path) {
  const auto codes = metadata.find("vocabulary");
  if (codes == metadata.end() || codes->second.empty())
    throw IoError(fmt::format("{} holds no vocabulary", path.string()));
  const auto characters = metadata.find("characters");
  const bool bytes = characters == metadata.end() || characters->second == kBytes;  // older files do not say
  const auto fail = [&](std::string_view word) {
    throw IoError(fmt::format("{}: its vocabulary has {}, which is no {}; {}", path.string(),
                              linnet::detail::shortened(word), bytes ? "byte" : "code point", kRemedy));
  };
  std::string text;
  for (std::string_view rest = codes->second; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    uint32_t code = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), code);
    if (error != std::errc() || end != word.data() + word.size() || code > (bytes ? 0xFF : 0x10FFFF)) fail(word);
    if (bytes) {
      text += static_cast<char>(code);
      continue;
    }
    const size_t before = text.size();
    linnet::detail::append_code_point(text, code);
    if (linnet::detail::code_point_length(std::string_view(text).substr(before)) == 0) fail(word);  // a surrogate
  }
  return nn::Vocabulary(text, bytes ? nn::Characters::bytes : nn::Characters::code_points);
}

std::map<std::string, std::string> vocabulary_metadata(const nn::Vocabulary& vocabulary) {
  const std::vector<uint32_t> codes(vocabulary.codes().begin(), vocabulary.codes().end());
  return {{"vocabulary", fmt::format("{}", fmt::join(codes, " "))},
          {"characters", vocabulary.kind() == nn::Characters::bytes ? kBytes : "code points"}};
}

}  // namespace linnet::examples
