#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace linnet {

struct Node;

/// A registered hook. It can remove the hook, which otherwise stays as long as its tensor.
class RemovableHandle {
 public:
  RemovableHandle(std::weak_ptr<Node> node, int64_t number)
      : node_(std::move(node)), number_(number) {}  ///< of a hook

  void remove();  ///< removes the hook now, unless it was removed before

 private:
  std::weak_ptr<Node> node_;
  int64_t number_;
};

}  // namespace linnet
