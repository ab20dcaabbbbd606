#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <linnet/core/files/atomic_file.h>
#include <linnet/core/files/file_errors.h>

/// Zip archives as far as .npz files need them: entries that are stored or packed by deflate, of any size (zip64).
///
/// Source: PKWARE's APPNOTE.TXT, 6.3.10.

namespace linnet::detail {

/// A file in an archive.
struct ZipEntry {
  std::string name = {};
  int64_t begin = 0;       ///< where its bytes begin in the archive
  int64_t packed = 0;      ///< the number of these bytes
  int64_t size = 0;        ///< the number of bytes that they unpack to
  uint32_t checksum = 0;   ///< CRC-32 of what they unpack to
  bool is_packed = false;  ///< by deflate
};

/// The entries of the archive, of `size` bytes. All lie within it, and none on another.
std::vector<ZipEntry> zip_entries(std::ifstream& file, int64_t size, const FileErrors& errors);

/// Reads an entry from its beginning.
class ZipEntryReader {
 public:
  ZipEntryReader(std::ifstream& file, const ZipEntry& entry, const FileErrors& errors);
  ~ZipEntryReader();
  ZipEntryReader(const ZipEntryReader&) = delete;
  ZipEntryReader& operator=(const ZipEntryReader&) = delete;

  void read(void* to, int64_t bytes);
  /// Checks the checksum, when all was read.
  void finish();

 private:
  struct Inflater;
  void unpack(unsigned char* to, int64_t bytes);

  std::ifstream& file_;
  const ZipEntry& entry_;
  const FileErrors& errors_;
  int64_t done_ = 0;    // bytes that were unpacked
  int64_t packed_ = 0;  // bytes that were read from the archive
  uint32_t checksum_ = 0;
  std::unique_ptr<Inflater> inflater_;  // where the entry is packed
};

/// Writes an archive of stored entries.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}
  /// Adds an entry of `head` and the `bytes` bytes at `data`.
  void add(const std::string& name, std::string_view head, const void* data, int64_t bytes);
  /// Writes the list of the entries, which ends the archive.
  void finish();

 private:
  void write(const std::string& bytes);

  AtomicFile& file_;
  int64_t position_ = 0, entries_ = 0;
  std::string directory_;  // the list
};

}  // namespace linnet::detail
