#pragma once

#include <filesystem>

#include <linnet/core/files/safetensors.h>
#include <linnet/core/tensor.h>

namespace linnet {

/// Reads the array of a .npy file, as numpy.save writes it, to the CPU. Nothing in the file is executed.
///
/// Dtypes: float32, float64, int32, int64 and bool are kept. The others become a dtype that holds every value
/// exactly: float16 becomes float32; int8, uint8, int16 and uint16 become int32; uint32 and uint64 become int64.
/// Cost: one pass. Big-endian elements are swapped. Arrays in Fortran order are copied once more, to be row-major.
/// Throws: IoError for a missing file; for a truncated or damaged one, with the position of the byte; and for arrays
/// that linnet does not support: other dtypes (complex numbers, text, Python objects), more than 64 dims, and uint64
/// numbers beyond int64.
Tensor read_npy(const std::filesystem::path& path, Where where = {});

/// Writes a file that numpy.load reads. It replaces an older file only when it is complete (see AtomicFile).
///
/// Throws: IoError when it cannot be written; DTypeError for a bfloat16 tensor.
void write_npy(const std::filesystem::path& path, const Tensor& x, Where where = {});

/// Reads the arrays of a .npz file, as numpy.savez and numpy.savez_compressed write it, with their names.
///
/// Dtypes: as `read_npy`.
/// Cost: two passes. The first one checks the whole file, so that a wrong size in it allocates no memory.
/// Throws: as `read_npy`; IoError also for an archive that holds anything but arrays.
TensorMap read_npz(const std::filesystem::path& path, Where where = {});

/// Writes a file that numpy.load reads, without compression, as numpy.savez does. It replaces an older file only when
/// it is complete.
///
/// Throws: as `write_npy`; ValueError for a name that is not UTF-8 or has more than 65,531 bytes.
void write_npz(const std::filesystem::path& path, const TensorMap& tensors, Where where = {});

}  // namespace linnet
