#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

/// The parts of NCCL 2 that linnet uses, from its reference (docs.nvidia.com/deeplearning/nccl). These are only
/// declarations: the library is loaded when ranks first need it. Building linnet does not need NCCL's own header,
/// which is not in the CUDA Toolkit.

// NOLINTBEGIN(readability-identifier-naming): NCCL's names
extern "C" {

using ncclComm_t = struct ncclComm*;
struct ncclUniqueId {
  char internal[128];
};
enum ncclResult_t : int { ncclSuccess = 0, ncclInvalidUsage = 5 };
enum ncclDataType_t : int { ncclInt8 = 0, ncclFloat32 = 7, ncclFloat64 = 8 };
enum ncclRedOp_t : int { ncclSum = 0 };

ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream);
}
// NOLINTEND(readability-identifier-naming)
