#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <linnet/core/distributed.h>

/// The processes that train a model together, started by `mpirun -np 4 build/bin/train_mnist --shards 8`.

namespace linnet::examples {

struct Settings;

/// A group that contains only this process.
ProcessGroup& one_rank();
/// The group of all processes that were started together. Before `join_ranks` it contains only this process.
ProcessGroup& ranks();
inline bool is_first_rank() { return ranks().rank() == 0; }

/// Joins the processes that a launcher of MPI started. From then on only rank 0 prints.
///
/// Throws: as ProcessGroup.
void join_ranks();
/// Makes stderr of this rank visible again, for an error that other ranks do not have. `join_ranks` silenced it.
void restore_stderr();

/// The number of threads for this rank, which shares processors with the other ranks of its host.
int threads_of_rank();

/// Runs `body` on rank 0 while the others wait. If it throws there, all ranks throw.
void on_first_rank(const std::function<void()>& body);
/// Whether the flag is set on any rank.
bool on_any_rank(bool flag, ProcessGroup& group = ranks());
/// Throws Interrupted, on all ranks, when any of them was interrupted. Evaluations, which can take long, call it.
void stop_if_interrupted(ProcessGroup& group = ranks());
/// The largest number of any rank.
int64_t largest_of_ranks(int64_t number);
/// The flag of rank 0.
bool of_first_rank(bool flag);

/// What an evaluation computes for a batch, such as the sum of its losses and the number of its examples.
using Figures = std::vector<double>;
/// Returns `of_batch(i)` for each of `count` batches, in order. Each rank computes a part of the batches and receives
/// the others from the other ranks. So the figures are bit-identical on all ranks and for any number of ranks.
///
/// Throws: as stop_if_interrupted.
std::vector<Figures> figures_of_batches(int64_t count, const std::function<Figures(int64_t batch)>& of_batch,
                                        ProcessGroup& group = ranks());
/// The sums of these figures, added in the order of the batches.
Figures sums_of_batches(int64_t count, const std::function<Figures(int64_t batch)>& of_batch,
                        ProcessGroup& group = ranks());

/// Throws ValueError, on all ranks, unless all were started with the same settings, data and program.
void check_same_start(const Settings& settings, const std::string& data_name);

}  // namespace linnet::examples
