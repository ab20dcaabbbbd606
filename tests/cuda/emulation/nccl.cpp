#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <linnet/cuda/distributed/nccl.h>

#include "control.h"
#include "failure.h"
#include "stream.h"

/// The functions of NCCL that cuda/distributed/nccl.cpp uses, for ranks that are threads. A call of the host waits
/// until all its ranks have made theirs; the data move when one of their streams reaches the message.

namespace {

using linnet::emulation::fail;

/// A rank's side of a message, and whether its stream has done the earlier work.
struct Side {
  cudaStream_t stream = nullptr;
  cudaEvent_t ready = nullptr;
  const void* sent = nullptr;
  void* received = nullptr;
  size_t sent_bytes = 0, received_bytes = 0;
};

/// The sides of a message by rank.
struct Meeting {
  std::map<int, Side> sides;
  bool is_done = false;
};

using Ranks = std::vector<int>;

/// The ranks that share an id, and the messages that some of them have not reached yet.
struct World {
  explicit World(int count) : size(count) {}

  const int size;
  std::mutex mutex;
  std::condition_variable came;
  std::map<Ranks, std::shared_ptr<Meeting>> open;

  /// Waits until all of `ranks` have brought their sides.
  std::shared_ptr<Meeting> meet(const Ranks& ranks, int rank, const Side& side) {
    std::unique_lock lock(mutex);
    std::shared_ptr<Meeting>& place = open[ranks];
    if (!place) place = std::make_shared<Meeting>();
    const std::shared_ptr<Meeting> meeting = place;
    meeting->sides[rank] = side;
    if (meeting->sides.size() == ranks.size()) place = nullptr;
    came.notify_all();
    came.wait(lock, [&] { return meeting->sides.size() == ranks.size(); });
    return meeting;
  }
  Ranks all() const {
    Ranks ranks;
    for (int rank = 0; rank < size; ++rank) ranks.push_back(rank);
    return ranks;
  }
};

std::mutex worlds_mutex;
std::map<int, std::weak_ptr<World>> worlds;
int ids = 0;

struct Message {
  bool is_sent;
  void* data;
  size_t bytes;
  int peer;
  ncclComm_t comm;
  cudaStream_t stream;
};
thread_local std::vector<Message> group;
thread_local bool is_in_group = false;

ncclResult_t status_told(const char* function = __builtin_FUNCTION()) {
  return static_cast<ncclResult_t>(linnet::emulation::status_told(function));
}

size_t size_of(ncclDataType_t type) { return type == ncclInt8 ? 1 : type == ncclFloat32 ? 4 : 8; }

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  int rank;
};

namespace {

/// Waits for the other ranks, and puts `move` into the stream. It runs once, when all sides are ready.
ncclResult_t message(ncclComm_t comm, const Ranks& ranks, Side side, const std::function<void(Meeting&)>& move) {
  cudaEventCreateWithFlags(&side.ready, cudaEventDisableTiming);
  cudaEventRecord(side.ready, side.stream);
  const std::shared_ptr<Meeting> meeting = comm->world->meet(ranks, comm->rank, side);
  linnet::emulation::submit(side.stream, [meeting, move] {
    if (std::exchange(meeting->is_done, true)) return;
    for (auto& [rank, one] : meeting->sides) cudaEventSynchronize(one.ready);
    move(*meeting);
    for (auto& [rank, one] : meeting->sides) cudaEventDestroy(one.ready);
  });
  return ncclSuccess;
}

template <class T>
void sum(Meeting& meeting) {
  const size_t count = meeting.sides.begin()->second.sent_bytes / sizeof(T);
  std::vector<T> sums(count);
  for (const auto& [rank, side] : meeting.sides) {
    const T* const values = static_cast<const T*>(side.sent);
    std::ranges::transform(sums, std::span(values, count), sums.begin(), std::plus<>());
  }
  for (auto& [rank, side] : meeting.sides) std::ranges::copy(sums, static_cast<T*>(side.received));
}

ncclResult_t exchange(const Message& sent, const Message& received) {
  ncclComm_t const comm = sent.comm;
  const Side side{sent.stream, nullptr, sent.data, received.data, sent.bytes, received.bytes};
  return message(comm, {std::min(comm->rank, sent.peer), std::max(comm->rank, sent.peer)}, side,
                 [](Meeting& meeting) {
                   Side &a = meeting.sides.begin()->second, &b = meeting.sides.rbegin()->second;
                   if (a.sent_bytes != b.received_bytes || b.sent_bytes != a.received_bytes)
                     fail("NCCL would wait for ever: sizes");
                   std::memmove(a.received, b.sent, b.sent_bytes);
                   std::memmove(b.received, a.sent, a.sent_bytes);
                 });
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = 22'703;
  return status_told();
}

const char* ncclGetErrorString(ncclResult_t) { return "emulated"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (const ncclResult_t status = status_told()) return status;
  const std::lock_guard lock(worlds_mutex);
  *reinterpret_cast<int*>(id->internal) = ++ids;
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (const ncclResult_t status = status_told()) return status;
  std::shared_ptr<World> world;
  {
    const std::lock_guard lock(worlds_mutex);
    std::weak_ptr<World>& place = worlds[*reinterpret_cast<const int*>(id.internal)];
    world = place.lock();
    if (!world) place = world = std::make_shared<World>(ranks);
  }
  world->meet(world->all(), rank, {});
  *comm = new ncclComm{world, rank};
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) { return ncclCommDestroy(comm); }

ncclResult_t ncclGroupStart() {
  is_in_group = true;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  is_in_group = false;
  const std::vector<Message> messages = std::exchange(group, {});
  if (const ncclResult_t status = status_told()) return status;
  if (messages.size() != 2 || messages[0].is_sent == messages[1].is_sent || messages[0].peer != messages[1].peer) {
    fail("what is emulated of NCCL's groups is a ncclSend and a ncclRecv with one peer");
  }
  return messages[0].is_sent ? exchange(messages[0], messages[1]) : exchange(messages[1], messages[0]);
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (!is_in_group) fail("ncclSend outside of a group waits for the peer's ncclRecv, which waits for this one");
  group.push_back({true, const_cast<void*>(data), count * size_of(type), peer, comm, stream});
  return ncclSuccess;
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  if (!is_in_group) fail("ncclRecv outside of a group waits for the peer's ncclSend, which waits for this one");
  group.push_back({false, data, count * size_of(type), peer, comm, stream});
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t status = status_told()) return status;
  const size_t bytes = count * size_of(type);
  return message(comm, comm->world->all(), {stream, nullptr, from, to, bytes, bytes},
                 type == ncclFloat32 ? sum<float> : sum<double>);
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  if (const ncclResult_t status = status_told()) return status;
  const size_t bytes = count * size_of(type);
  return message(comm, comm->world->all(), {stream, nullptr, from, to, bytes, bytes}, [root](Meeting& meeting) {
    const Side source = meeting.sides.at(root);
    for (auto& [rank, side] : meeting.sides) {
      if (rank != root) std::memcpy(side.received, source.sent, source.sent_bytes);
    }
  });
}
