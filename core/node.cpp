#include <linnet/core/node.h>

#include <atomic>

#include <fmt/format.h>

#include <linnet/core/error.h>

namespace linnet {
namespace {

std::atomic<int64_t> live_nodes{0};

/// A node's inputs, and the tensors that its backward saved, own further nodes. Those that become free while one is
/// being destroyed wait in a list instead of recursing: a tape may be 100,000 ops deep.
void reclaim(Node* node) {
  thread_local std::vector<Node*>* waiting = nullptr;
  if (waiting != nullptr) {
    waiting->push_back(node);
    return;
  }
  std::vector<Node*> list{node};
  waiting = &list;
  while (!list.empty()) {
    Node* next = list.back();
    list.pop_back();
    delete next;
  }
  waiting = nullptr;
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

}  // namespace linnet
