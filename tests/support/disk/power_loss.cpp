#include "tests/support/disk/power_loss.h"

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>

namespace linnet::test {

namespace fs = std::filesystem;

/// A file or a folder: its flushed part, and the changes since.
struct Disk::Node {
  using Names = std::map<std::string, std::shared_ptr<Node>>;
  struct Write {
    std::string bytes;
    int64_t offset;
    bool truncates = false;  // to `offset` bytes
  };
  using Renaming = std::function<void(Names&)>;

  bool is_folder = false;
  std::string bytes;  // of a file
  std::vector<Write> writes;
  Names flushed_names, names;  // of a folder
  std::vector<Renaming> renamings;

  void write(const Write& write) { writes.push_back(write); }
  void change_names(const Renaming& renaming) {
    renaming(names);
    renamings.push_back(renaming);
  }
  void flush() {
    for (const Write& write : writes) apply(write, bytes, write.bytes.size());
    writes.clear();
    flushed_names = names;
    renamings.clear();
  }

  std::string left_bytes(Left left, std::mt19937_64& random) const {
    std::string all = bytes;
    for (const Write& write : writes) {
      if (left == Left::nothing || left == Left::names) break;
      if (left == Left::some && random() % 2 == 0) continue;
      const bool whole = left != Left::some || random() % 2 == 0;
      apply(write, all, whole ? write.bytes.size() : random() % (write.bytes.size() + 1));
    }
    return all;
  }
  Names left_names(Left left, std::mt19937_64& random) const {
    size_t count = left == Left::names || left == Left::everything ? renamings.size() : 0;
    if (left == Left::some) count = random() % (renamings.size() + 1);
    Names all = flushed_names;
    for (size_t i = 0; i < count; ++i) renamings[i](all);
    return all;
  }
  void add_contents(const fs::path& path, Left left, std::mt19937_64& random, FolderContents& contents) const {
    for (const auto& [name, node] : left_names(left, random)) {
      if (node->is_folder) {
        contents.folders.insert(path / name);
        node->add_contents(path / name, left, random, contents);
      } else {
        contents.files[path / name] = node->left_bytes(left, random);
      }
    }
  }

 private:
  static void apply(const Write& write, std::string& bytes, size_t count) {
    const auto offset = static_cast<size_t>(write.offset);
    if (write.truncates) return bytes.resize(offset);
    bytes.resize(std::max(bytes.size(), offset + count));
    bytes.replace(offset, count, write.bytes, 0, count);
  }
};

Disk::Disk(fs::path folder) : folder_(fs::canonical(folder)), root_(std::make_unique<Node>()) {
  root_->is_folder = true;
  const FolderContents contents = contents_of(folder_);
  const auto add = [&](const fs::path& name, bool is_folder, const std::string& bytes) {
    auto node = std::make_shared<Node>();
    node->is_folder = is_folder;
    node->bytes = bytes;
    Node& above = node_at(folder_ / name.parent_path());
    above.names[name.filename()] = above.flushed_names[name.filename()] = std::move(node);
  };
  for (const fs::path& name : contents.folders) add(name, true, "");  // a folder comes before those in it
  for (const auto& [name, bytes] : contents.files) add(name, false, bytes);
}

Disk::~Disk() = default;

Disk::Node& Disk::node_at(const fs::path& path) const {
  Node* node = root_.get();
  for (const fs::path& name : path.lexically_relative(folder_)) {
    if (name.empty() || name == ".") continue;
    const auto found = node->names.find(name);
    if (found == node->names.end()) throw std::logic_error("the disk was not told of " + path.string());
    node = found->second.get();
  }
  return *node;
}

void Disk::make(const FileCall& call) {
  if (call.error != 0 || call.name == "close") return;
  const std::string name = call.path.filename();
  const auto above = [&]() -> Node& { return node_at(call.path.parent_path()); };
  const auto add = [&](bool is_folder) {
    auto node = std::make_shared<Node>();
    node->is_folder = is_folder;
    above().change_names([=](Node::Names& names) { names[name] = node; });
  };
  if (call.name == "open") {
    if (call.path != folder_ && !above().names.contains(name) && (call.flags & O_CREAT) != 0) add(false);
    if ((call.flags & O_TRUNC) != 0) node_at(call.path).write({.bytes = {}, .offset = 0, .truncates = true});
  } else if (call.name == "write") {
    node_at(call.path).write({.bytes = call.data, .offset = call.offset});
  } else if (call.name == "ftruncate") {
    node_at(call.path).write({.bytes = {}, .offset = call.offset, .truncates = true});
  } else if (call.name == "fsync") {
    node_at(call.path).flush();
  } else if (call.name == "mkdir") {
    add(true);
  } else if (call.name == "unlink") {
    above().change_names([=](Node::Names& names) { names.erase(name); });
  } else if (call.name == "rename") {
    if (call.from.parent_path() != call.path.parent_path()) throw std::logic_error("a rename between folders");
    const std::shared_ptr<Node> node = above().names.at(call.from.filename());
    above().change_names([=, from = call.from.filename().string()](Node::Names& names) {
      names.erase(from);
      names[name] = node;
    });
  }
}

FolderContents Disk::contents(Left left, std::mt19937_64& random) const {
  FolderContents contents;
  root_->add_contents("", left, random, contents);
  return contents;
}

}  // namespace linnet::test
