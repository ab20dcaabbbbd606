#include "support/tasks/task.h"

namespace linnet::examples {

std::unique_ptr<Task> make_task(const Settings& settings) {
  return settings.task == "mnist" ? make_image_task(settings) : make_text_task(settings);
}

}  // namespace linnet::examples
