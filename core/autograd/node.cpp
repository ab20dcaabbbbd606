#include <linnet/core/autograd/node.h>

#include <atomic>

#include <fmt/format.h>

#include <linnet/core/error.h>

namespace linnet {
namespace {

std::atomic<int64_t> live_nodes{0};

/// Destroys a node without recursion, because a tape may be 100,000 ops deep. A node's inputs, and the tensors that
/// its backward saved, own further nodes. If these become free while a node is being destroyed, they wait in a list.
/// The list is linked through the nodes themselves, because a destructor must not depend on an allocation.
void reclaim(Node* node) {
  thread_local Node* waiting = nullptr;
  thread_local bool reclaiming = false;
  node->next_to_free = waiting;
  waiting = node;
  if (reclaiming) return;
  reclaiming = true;
  while (waiting != nullptr) {
    Node* const next = waiting;
    waiting = next->next_to_free;
    delete next;
  }
  reclaiming = false;
}

}  // namespace

Node::Node() { live_nodes.fetch_add(1, std::memory_order_relaxed); }
Node::~Node() { live_nodes.fetch_sub(1, std::memory_order_relaxed); }

std::shared_ptr<Node> Node::make() { return {new Node, reclaim}; }
int64_t Node::live_count() { return live_nodes.load(std::memory_order_relaxed); }

int64_t live_tape_nodes() { return Node::live_count(); }

void refuse_device(const std::string& what, const Tensor& gradient, const char* owner, Device device) {
  throw DeviceError(fmt::format("{} is on {}, {} on {}; move it with to(Device::{})", what,
                                name_of(gradient.device()), owner, name_of(device), name_of(device)));
}

void refuse_without_gradient() {
  throw AutogradError(
      "the tensor does not require grad, so no gradient will reach it; call set_requires_grad() on it, or, before "
      "computing it, on its inputs");
}

}  // namespace linnet
