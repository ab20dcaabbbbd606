#include "support/tasks/task.h"

#include "support/settings/choices.h"

namespace linnet::examples {
std::unique_ptr<Task> make_task(const Settings& settings) {
  return settings.task == "mnist" ? make_image_task(settings) : make_text_task(settings);
}

nn::Positions positions_of(const Settings& s) { return choose(kPositions, "positions", s.positions); }

nn::BlockConfig block_config(const Settings& s) {
  return {.attention = {.mechanism = s.attention,
                        .width = s.width,
                        .heads = s.heads,
                        .bias = s.bias,
                        .dropout = s.attention_dropout,
                        .short_conv = s.short_conv,
                        .options = attention_options(s)},
          .hidden = s.feed_forward * s.width,
          .dropout = s.dropout};
}

}  // namespace linnet::examples
